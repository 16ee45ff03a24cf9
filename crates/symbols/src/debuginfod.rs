//! Debug files from debuginfod servers, for those who ask for them.
//!
//! The protocol is one request: `GET /buildid/<build-id>/debuginfo`. A server is believed only if
//! it sends an ELF file that has the build-id asked for. A server that does not answer, stops in
//! the middle or sends something else costs a bounded time and is one remark; the next server is
//! asked. What was downloaded is kept.
//!
//! The client itself ([`client`]) is there with the feature `debuginfod`; without it, every server
//! is a remark.

#[cfg(feature = "debuginfod")]
#[path = "debuginfod/client.rs"]
mod client;
#[cfg(not(feature = "debuginfod"))]
#[path = "debuginfod/no_client.rs"]
mod client;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::build_id::build_id_of;
use crate::cache::{BuildIdText, keep_below};
use crate::debuginfod::client::Client;
use crate::error::Error;
use crate::options::Options;
use crate::own_files;
use crate::progress::{Progress, Step};

/// Bytes of downloads that are kept.
const MAX_KEPT_BYTES: u64 = 8 << 30;

/// All servers that the user has named, and what came from them.
#[derive(Debug)]
pub struct Debuginfod {
    client: Client,
    servers: Vec<String>,
    folder: PathBuf,
    progress: Option<Arc<dyn Progress>>,
}

impl Debuginfod {
    /// Downloads go to the folder `debuginfod` in the folder given.
    pub fn new(base: &Path, options: &Options) -> Result<Debuginfod, Error> {
        let client = Client::new(options.silence_timeout)?;
        let folder = base.join("debuginfod");
        fs::create_dir_all(&folder).map_err(|cause| Error::Folder { path: folder.clone(), cause })?;
        Ok(Debuginfod { client, servers: options.servers.clone(), folder, progress: options.progress.clone() })
    }

    /// Returns the debug file of a build, the first that a server has, and what went wrong on the
    /// way.
    pub fn fetch(&self, build_id: &BuildIdText) -> (Option<PathBuf>, Vec<Error>) {
        let kept = self.folder.join(format!("{}.debug", build_id.as_str()));
        if build_id_of(&kept).ok().flatten().as_ref() == Some(build_id) {
            let _ = own_files::open(&kept).map(|file| own_files::mark_used(&file));
            return (Some(kept), Vec::new());
        }
        let mut faults = Vec::new();
        for server in &self.servers {
            match self.download(server, build_id, &kept) {
                Ok(true) => return (Some(kept), faults),
                Ok(false) => {}
                Err(fault) => faults.push(fault),
            }
        }
        (None, faults)
    }

    /// Returns whether the server has the file, which is then in `kept`.
    fn download(&self, server: &str, build_id: &BuildIdText, kept: &Path) -> Result<bool, Error> {
        let mut heard = |received, length| {
            if let Some(progress) = &self.progress {
                progress.step(Step::Downloading { server, build_id: build_id.as_str(), received, length });
            }
        };
        let partial = kept.with_extension(format!("{}.partial", std::process::id()));
        let received = self.client.receive(server, build_id, &partial, &mut heard);
        if let Some(progress) = &self.progress {
            progress.step(Step::Reading);
        }
        let result = received.and_then(|is_there| {
            if is_there {
                keep(&partial, kept, build_id, server)?;
            }
            Ok(is_there)
        });
        if result.is_err() {
            let _ = fs::remove_file(&partial);
        }
        keep_below(&self.folder, MAX_KEPT_BYTES);
        result
    }
}

fn keep(partial: &Path, kept: &Path, build_id: &BuildIdText, server: &str) -> Result<(), Error> {
    if build_id_of(partial).ok().flatten().as_ref() != Some(build_id) {
        return Err(Error::OtherBuild { server: server.to_owned() });
    }
    fs::rename(partial, kept).map_err(|cause| Error::Folder { path: kept.to_owned(), cause })
}
