//! Links between documents lead somewhere.

use crate::tidy::{Complaint, markdown};
use crate::workspace::{TextFile, Workspace};

pub fn check(workspace: &Workspace) -> Vec<Complaint> {
    let documents = workspace.files.iter().filter(|file| file.is_markdown());
    documents.flat_map(|document| broken(workspace, document)).collect()
}

fn broken(workspace: &Workspace, document: &TextFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for link in markdown::links(&document.text) {
        let place = format!("{}:{}", document.path, link.line_number);
        let path = if link.path.is_empty() { document.path.clone() } else { resolve(&document.path, link.path) };
        let Some(target) = workspace.file(&path) else {
            let is_folder = workspace.files.iter().any(|file| file.path.starts_with(&format!("{path}/")));
            if !is_folder {
                complaints.push(format!("{place}: a link to `{path}`, which does not exist"));
            }
            continue;
        };
        if let Some(anchor) = link.anchor.filter(|anchor| !markdown::anchors(&target.text).iter().any(|a| a == anchor))
        {
            complaints.push(format!("{place}: a link to `{path}#{anchor}`, which does not exist"));
        }
    }
    complaints
}

/// Returns the path that `relative` means in the document `from`.
fn resolve(from: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::workspace;

    #[test]
    fn links_to_nowhere_are_found() {
        let files = [
            ("README.md", "[a](docs/a.md) [b](docs/a.md#there) [c](docs/gone.md) [d](docs/a.md#gone) [e](docs/)\n"),
            ("docs/a.md", "# There\n[up](../README.md) [self](#there) [beside](lab/p.svg)\n"),
            ("docs/lab/p.svg", ""),
        ];
        assert_eq!(
            check(&workspace(Vec::new(), &files)),
            [
                "README.md:1: a link to `docs/gone.md`, which does not exist",
                "README.md:1: a link to `docs/a.md#gone`, which does not exist",
            ]
        );
    }
}
