//! The programs: where their source comes from, how they are compiled, what they are given to do.
//!
//! A program is compiled from its Debian source package by a few lines of shell, so that compiler
//! and flags are free to choose. Each has one kind of work in two sizes: some 15 s to learn from,
//! and some 0.2 to 1 s to be judged by, which is part of the former.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Short name.
    pub name: &'static str,
    /// Debian source package.
    pub package: &'static str,
    /// What is to be done once in the source folder.
    pub prepare: &'static str,
    /// Compiles: `$CC`, `$CXX`, `$FLAGS`, `$LINK` and `$JOBS` say how, `$SRC` is the source, `$OUT`
    /// the program to make. Runs in a folder of its own.
    pub compile: &'static str,
    work: Work,
}

/// How a program is given its input.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// A script in a file, and the number of rounds as its argument.
    Lua { rounds: [usize; 2] },
    /// Statements on standard input, round by round.
    Sql { rounds: [usize; 2] },
    /// Arguments, and files of its own source.
    OwnSource { options: &'static [&'static str], files: [&'static [&'static str]; 2] },
}

/// All programs.
pub const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "sqlite",
        package: "sqlite3",
        prepare: "mkdir -p amalgamation; cd amalgamation; ../configure --disable-tcl >configure.log; make sqlite3.c shell.c >make.log",
        compile: "$CC $FLAGS -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I\"$SRC/amalgamation\" \
                  \"$SRC/amalgamation/shell.c\" \"$SRC/amalgamation/sqlite3.c\" $LINK -o \"$OUT\" -lm",
        work: Work::Sql { rounds: [1500, 15] },
    },
    Subject {
        name: "lua",
        package: "lua5.4",
        prepare: "echo '#define DEB_HOST_MULTIARCH \"x86_64-linux-gnu\"' >src/lua5.4-deb-multiarch.h",
        // Hashes of strings are seeded by time and addresses otherwise, so that no two runs would
        // do the same.
        compile: "$CC $FLAGS -DLUA_COMPAT_5_3 -DLUA_USE_LINUX '-Dluai_makeseed(L)=0x5eed' $(ls \"$SRC\"/src/*.c | grep -v /luac.c) $LINK -Wl,-E -o \"$OUT\" -lm -ldl",
        work: Work::Lua { rounds: [4000, 40] },
    },
    Subject {
        name: "cppcheck",
        package: "cppcheck",
        prepare: "",
        compile: "objects=$PWD; cd \"$SRC\"; ln -sfn \"$SRC/cfg\" \"$(dirname \"$OUT\")/cfg\"; \
                  ls lib/*.cpp cli/*.cpp externals/*/*.cpp | xargs -P \"$JOBS\" -I{} sh -ec \
                  \"$CXX $FLAGS -std=c++11 -Ilib -isystem externals/picojson -isystem externals/simplecpp -isystem externals/tinyxml2 \
                  -c {} -o '$objects'/\\$(echo {} | tr / _).o\"; \
                  $CXX $FLAGS \"$objects\"/*.o $LINK -o \"$OUT\"",
        work: Work::OwnSource {
            options: &["--quiet", "--enable=all", "--max-configs=1"],
            files: [
                &[
                    "externals/simplecpp/simplecpp.cpp",
                    "lib/ctu.cpp",
                    "lib/errorlogger.cpp",
                    "lib/importproject.cpp",
                    "lib/library.cpp",
                    "lib/mathlib.cpp",
                    "lib/preprocessor.cpp",
                    "lib/programmemory.cpp",
                    "lib/suppressions.cpp",
                    "lib/tokenlist.cpp",
                ],
                &["lib/errorlogger.cpp", "lib/mathlib.cpp"],
            ],
        },
    },
];

/// The programs with the given names, or all if none is given.
pub fn select(names: &[String]) -> anyhow::Result<Vec<Subject>> {
    if names.is_empty() {
        return Ok(SUBJECTS.to_vec());
    }
    let find = |name: &String| {
        let known = SUBJECTS.map(|subject| subject.name).join(", ");
        let found = SUBJECTS.into_iter().find(|subject| subject.name == *name);
        found.with_context(|| format!("no program `{name}`; there are {known}"))
    };
    names.iter().map(find).collect()
}

/// How much is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// To learn from.
    Training = 0,
    /// To be judged by.
    Judging = 1,
}

/// What a program is given to do.
#[derive(Clone, Debug)]
pub struct Workload {
    arguments: Vec<String>,
    stdin: Option<PathBuf>,
    folder: PathBuf,
}

impl Workload {
    /// Makes the input of a program in `folder`; its source is in `source`.
    pub fn new(subject: &Subject, size: Size, folder: &Path, source: &Path) -> anyhow::Result<Workload> {
        let mut workload = Workload { arguments: Vec::new(), stdin: None, folder: folder.to_owned() };
        match subject.work {
            Work::Lua { rounds } => {
                fs::write(folder.join("work.lua"), LUA)?;
                workload.arguments = vec!["work.lua".to_owned(), rounds[size as usize].to_string()];
            }
            Work::Sql { rounds } => {
                let input = folder.join(format!("{size:?}.sql"));
                fs::write(&input, statements(rounds[size as usize]))?;
                workload.arguments = vec![":memory:".to_owned()];
                workload.stdin = Some(input);
            }
            Work::OwnSource { options, files } => {
                workload.arguments = options.iter().chain(files[size as usize]).map(|&text| text.to_owned()).collect();
                source.clone_into(&mut workload.folder);
            }
        }
        Ok(workload)
    }

    /// The work done by a program, perhaps under a tool. Output is thrown away.
    pub fn command(&self, tool: &[String], program: &Path) -> anyhow::Result<Command> {
        let mut command = match tool {
            [] => Command::new(program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        };
        let stdin = match &self.stdin {
            Some(path) => Stdio::from(fs::File::open(path).with_context(|| path.display().to_string())?),
            None => Stdio::null(),
        };
        command.args(&self.arguments).current_dir(&self.folder);
        command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

fn statements(n_rounds: usize) -> String {
    let rounds = (1..=n_rounds).map(|round| SQL_ROUND.replace("$KIND", &(round % 37).to_string()));
    std::iter::once(SQL_TABLES.to_owned()).chain(rounds).collect()
}

const SQL_TABLES: &str = "\
CREATE TABLE item(id INTEGER PRIMARY KEY, kind INT, name TEXT, price REAL);
CREATE INDEX item_kind ON item(kind, price);
CREATE TABLE sale(item INT, day INT, n INT);
";

const SQL_ROUND: &str = "\
DELETE FROM item; DELETE FROM sale; BEGIN;
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 2000)
  INSERT INTO item SELECT x, x * 7919 % 37, printf('item %d of %s', x, hex(x * 31)), x * 13 % 997 / 7.0 FROM c;
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 4000)
  INSERT INTO sale SELECT x * 31 % 2000 + 1, x % 365, x % 9 FROM c;
COMMIT;
SELECT kind, count(*), round(sum(price), 2), max(name) FROM item GROUP BY kind HAVING count(*) > 10 ORDER BY 3 DESC LIMIT 3;
SELECT i.kind, sum(s.n * i.price) FROM sale s JOIN item i ON i.id = s.item
  WHERE s.day BETWEEN 30 AND 200 GROUP BY i.kind ORDER BY 2 LIMIT 2;
SELECT count(*) FROM item WHERE name LIKE '%3_f%' OR upper(substr(name, 6)) GLOB '*1*2';
UPDATE item SET price = price * 1.1, name = replace(name, 'of', 'from')
  WHERE kind IN (SELECT kind FROM item GROUP BY kind ORDER BY sum(price) LIMIT 12);
SELECT day, n FROM sale WHERE item IN (SELECT id FROM item WHERE kind = $KIND AND price > 20) ORDER BY day DESC, n LIMIT 2;
DELETE FROM item WHERE id % 3 = 0;
SELECT count(*), avg(length(name)) FROM item LEFT JOIN sale ON item = id;
";

const LUA: &str = "\
local scale = tonumber(arg[1])
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function sieve(n)
  local composite, count = {}, 0
  for i = 2, n do
    if not composite[i] then count = count + 1 for j = i * i, n, i do composite[j] = true end end
  end
  return count
end
local function words(n)
  local seen, text = {}, {}
  for i = 1, n do text[#text + 1] = string.format(\"w%d\", i * 7919 % 613) end
  for word in table.concat(text, \" \"):gmatch(\"%a%d+\") do seen[word] = (seen[word] or 0) + #word end
  local keys = {}
  for word in pairs(seen) do keys[#keys + 1] = word end
  table.sort(keys, function(a, b) if seen[a] ~= seen[b] then return seen[a] > seen[b] end return a < b end)
  return keys[1] .. keys[#keys]
end
local Point = {}
Point.__index = Point
Point.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y - b.y}, Point) end
function Point:norm() return self.x * self.x + self.y * self.y end
local function points(n)
  local sum = setmetatable({x = 0, y = 0}, Point)
  for i = 1, n do
    sum = sum + setmetatable({x = i % 5, y = i % 3}, Point)
    if sum:norm() > 1e6 then sum.x, sum.y = 0, 0 end
  end
  return sum.x, sum.y
end
for round = 1, scale do print(fib(17), sieve(3000), words(900), points(4000)) end
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_program_is_named_in_the_error() {
        let error = select(&["slqite".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`slqite`") && error.contains("sqlite"), "{error}");
        assert_eq!(select(&[]).unwrap().len(), SUBJECTS.len());
    }

    #[test]
    fn judging_is_a_part_of_training() {
        let folder = tempfile::tempdir().unwrap();
        let [sqlite, _, cppcheck] = SUBJECTS;
        let make = |subject, size| Workload::new(subject, size, folder.path(), folder.path()).unwrap();
        let text = |size| fs::read_to_string(make(&sqlite, size).stdin.unwrap()).unwrap();
        assert!(text(Size::Training).starts_with(&text(Size::Judging)));
        let (training, judging) = (make(&cppcheck, Size::Training), make(&cppcheck, Size::Judging));
        assert!(judging.arguments.iter().all(|argument| training.arguments.contains(argument)));
    }
}
