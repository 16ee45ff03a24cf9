//! The page is complete, well formed, loads nothing, and shows hostile names as text.

use std::path::Path as FilePath;
use std::process::Command;

use profile::model::{
    Block, BlockEnd, BlockId, Context, ContextId, Function, FunctionId, Loop, Module, ModuleId, Path,
};
use profile::{Estimate, Profile};
use symbols::Options;

use super::*;

/// Elements without an end.
const VOID: &[&str] = &["meta", "input", "br"];

/// Two functions, of which the second is `name`, with a path and a loop in its only block.
fn profile(binary: &str, name: &str, address: u64) -> Profile {
    let ns = |ms: u64| Estimate { value: ms as f64 * 1e6, variance: 1e12, seen: ms };
    let function = |name: &str, address, ms| Function {
        module: ModuleId(0),
        address,
        size: 16,
        name: name.to_owned(),
        entries: Estimate::exact(10),
        self_ns: ns(ms),
    };
    let context = |parent: Option<u32>, function, ms, kernel_ms| Context {
        parent: parent.map(ContextId),
        function: FunctionId(function),
        call_site: None,
        entries: Estimate::exact(10),
        self_ns: ns(ms),
        kernel_ns: ns(kernel_ms),
        misses: 0,
    };
    let block = Block {
        function: FunctionId(1),
        address,
        size: 8,
        last: 4,
        n_insns: 2,
        end: BlockEnd::Branch,
        count: Estimate::exact(100),
        self_ns: Estimate::default(),
    };
    let path = Path {
        function: FunctionId(1),
        blocks: vec![BlockId(0)],
        back_to: Some(BlockId(0)),
        n_branches: 1,
        count: Estimate::exact(100),
        self_ns: ns(600),
        misses: 0,
    };
    let repeated = Loop {
        function: FunctionId(1),
        header: BlockId(0),
        parent: None,
        entries: Estimate::exact(10),
        iterations: Estimate::exact(100),
        trips: vec![0, 0, 10],
        n_partial_visits: 0,
        self_ns: ns(600),
    };
    Profile {
        facts: [("command".to_owned(), format!("{name} 'x'")), ("cost_percent".to_owned(), "0.31".to_owned())].into(),
        modules: vec![Module { path: binary.to_owned(), build_id: String::new() }],
        functions: vec![function("start", 1, 300), function(name, address, 600)],
        blocks: vec![block],
        paths: vec![path],
        contexts: vec![context(None, 0, 300, 100), context(Some(0), 1, 600, 0)],
        loops: vec![repeated],
        ..Profile::default()
    }
}

fn page(profile: &Profile) -> String {
    let mut symbolizer = Symbolizer::new(profile, &Options::offline(None));
    let mut out = Vec::new();
    write(profile, &mut symbolizer, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Names of the tags of a page in order, ends with a slash. Fails on anything that no browser
/// should have to guess at.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map(|end| start + end).expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name: String = tag.chars().take_while(|c| c.is_ascii_alphanumeric() || "/!".contains(*c)).collect();
        rest = &rest[end + 1..];
        // What scripts and styles contain is no markup.
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}>")).expect("it ends")..];
        }
        let is_closed = tag.ends_with('/') || name.starts_with('!') || VOID.contains(&name.as_str());
        if !is_closed {
            tags.push(name);
        }
    }
    tags
}

#[test]
fn every_section_is_there_and_every_element_ends() {
    let page = page(&profile("/no/such/program", "hot", 0x1000));
    for id in ["overview", "flame", "functions", "paths", "loops"] {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    let mut open: Vec<String> = Vec::new();
    for tag in tags(&page) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None => open.push(tag),
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

#[test]
fn figures_have_error_bars() {
    let page = page(&profile("/no/such/program", "hot", 0x1000));
    let section = |id: &str| {
        let from = page.split(&format!("<section id=\"{id}\">")).nth(1).expect(id);
        from.split("</section>").next().unwrap_or_default().to_owned()
    };
    assert!(section("overview").contains("1.00 s") && section("overview").contains("0.31"));
    assert!(section("functions").contains("60.0 % ±"));
    assert!(section("paths").contains("and round again"));
    assert!(section("loops").contains("4-7: 10"));
    assert!(section("flame").contains("[kernel]") && section("flame").contains("hot: 600 ms"));
}

#[test]
fn nothing_is_loaded() {
    let page = page(&profile("/no/such/program", "hot", 0x1000));
    for external in ["http://", "https://", "//www", "src=", "url(", "@import", "<link", "<iframe"] {
        assert!(!page.contains(external), "{external}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn names_are_text() {
    let page = page(&profile("/no/<such>/\"program", "a<script>alert</script>&\"'", 0x1000));
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains("a&lt;script&gt;alert&lt;/script&gt;&amp;&quot;&#39;"));
    assert!(page.contains("/no/&lt;such&gt;/&quot;program"));
    tags(&page);
}

#[test]
fn an_empty_profile_has_a_page() {
    tags(&page(&Profile::default()));
}

#[test]
fn hot_paths_show_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path());
    let page = page(&profile(&program, "work", address_of(&program, "work")));
    assert!(page.contains("n += argc &lt; 3;"), "{page}");
    assert!(page.contains("hot.c:"), "{page}");
}

/// Uses the page as a reader would and writes down what became of it.
const READER: &str = "{
const seen = {};
const frames = [...document.querySelectorAll('#frames > svg')];
const named = name => frames.find(frame => frame.querySelector('text').textContent === name);
seen.frames = frames.length;
seen.wide = frames.every(frame => 0 < frame.querySelector('rect').getBoundingClientRect().width);
named('hot').onclick();
seen.zoomed = named('hot').getAttribute('width');
seen.hidden = named('[kernel]').style.display;
named('start').onclick();
seen.back = Number.parseFloat(named('hot').getAttribute('width'));
const search = document.getElementById('search');
search.value = 'HOT';
search.oninput();
seen.found = frames.filter(frame => frame.classList.contains('found')).length;
const first = () => document.querySelector('#functions tbody tr .name').firstChild.textContent;
seen.hottest = first();
document.querySelectorAll('#functions th')[2].onclick();
seen.sorted = first();
document.getElementById('theme').onclick();
seen.theme = document.documentElement.dataset.theme;
seen.path = document.querySelector('#paths details[open] tbody tr').textContent.includes('0x1000');
document.body.dataset.seen = Object.entries(seen).map(([name, value]) => `${name}=${value}`).join(' ');
}";

#[test]
fn a_browser_shows_it() {
    if std::env::var_os("STROBE_CONSUMERS").is_none_or(|value| value != "1") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let page = page(&profile("/no/such/program", "hot", 0x1000));
    let read = page.replace("</body>", &format!("<script>{READER}</script></body>"));
    std::fs::write(&file, read).unwrap();
    let browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("browser").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium is needed; run `STROBE_CONSUMERS=1 cargo xtask packages`");
    let (shown, log) = (String::from_utf8_lossy(&browser.stdout), String::from_utf8_lossy(&browser.stderr));
    assert!(browser.status.success(), "{log}");
    assert!(!log.contains("CONSOLE"), "{log}");
    let seen = shown.split("data-seen=\"").nth(1).and_then(|rest| rest.split('"').next());
    let expected =
        "frames=3 wide=true zoomed=100% hidden=none back=60 found=1 hottest=hot sorted=start theme=dark path=true";
    assert_eq!(seen, Some(expected), "{shown}");
}

fn compiled(folder: &FilePath) -> String {
    let (source, program) = (folder.join("hot.c"), folder.join("hot"));
    let text = "int work(int argc) {\n  int n = argc;\n  n += argc < 3;\n  return n;\n}\nint main(int argc, char **argv) { return work(argc); }\n";
    std::fs::write(&source, text).unwrap();
    let status = Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc is needed").success());
    program.to_str().unwrap().to_owned()
}

/// Behind the first instructions of the function, where its third line is.
fn address_of(program: &str, line_of: &str) -> u64 {
    let bytes = std::fs::read(program).unwrap();
    let image = image::Image::parse(&bytes).unwrap();
    let symbol = image.symbols().iter().find(|symbol| symbol.name == line_of).expect("the function");
    let sections = image::LineSections::read(&bytes, None).expect("debug data");
    let lines = sections.table().expect("debug data");
    let mut addresses = (symbol.address.0..symbol.address.0 + symbol.size).map(image::Svma);
    let is_third = |at: &image::Svma| lines.frames_at(*at).first().is_some_and(|frame| frame.line == Some(3));
    addresses.find(is_third).expect("code of line 3").0
}
