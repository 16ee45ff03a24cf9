//! Debug files from debuginfod servers, for those who ask for them.
//!
//! The protocol is one request: `GET /buildid/<build-id>/debuginfo`. A server is believed only if it sends an ELF file that has the build-id
//! asked for. A server that does not answer, stops in the middle or sends something else costs a bounded time and is
//! one remark; the next server is asked. What was downloaded is kept.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::symbols::cache::{BuildIdText, keep_below};
use crate::symbols::files::build_id_of;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for an answer to begin, and then for each further part of it. Servers may have to unpack a package first.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest file that is accepted.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// Bytes of downloads that are kept.
const MAX_KEPT_BYTES: u64 = 8 << 30;

/// A client of all servers that the user has named.
#[derive(Debug)]
pub struct Debuginfod {
    agent: Agent,
    servers: Vec<String>,
    folder: PathBuf,
}

/// The servers in `DEBUGINFOD_URLS`, where debuggers find them too.
pub fn servers_from_environment() -> Vec<String> {
    let urls = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
    urls.split_whitespace().map(str::to_owned).collect()
}

impl Debuginfod {
    /// Downloads go to the folder `debuginfod` in the folder given.
    pub fn new(servers: &[String], base: &Path, silence_timeout: Duration) -> Result<Debuginfod> {
        let folder = base.join("debuginfod");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let config = Agent::config_builder()
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(silence_timeout))
            .timeout_per_read(Some(silence_timeout))
            .http_status_as_error(false)
            .user_agent("strobe")
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
        Ok(Debuginfod { agent: config.build().into(), servers: servers.to_vec(), folder })
    }

    /// The debug file of a build: the first that a server has, or why none came.
    pub fn fetch(&self, build_id: &BuildIdText) -> (Option<PathBuf>, Vec<String>) {
        let kept = self.folder.join(format!("{}.debug", build_id.as_str()));
        if build_id_of(&kept).ok().flatten().as_ref() == Some(build_id) {
            return (Some(kept), Vec::new());
        }
        let mut faults = Vec::new();
        for server in &self.servers {
            match self.download(server, build_id, &kept) {
                Ok(true) => return (Some(kept), faults),
                Ok(false) => {}
                Err(fault) => faults.push(format!("debuginfod: {server}: {fault:#}")),
            }
        }
        (None, faults)
    }

    /// Whether the server has the file; it is then in `kept`.
    fn download(&self, server: &str, build_id: &BuildIdText, kept: &Path) -> Result<bool> {
        let progress = Download::new(server, build_id);
        let url = format!("{}/buildid/{}/debuginfo", server.trim_end_matches('/'), build_id.as_str());
        let response = self.agent.get(&url).call()?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(false),
            status => bail!("answers with status {status}"),
        }
        let body = response.into_body();
        progress.expect(body.content_length());
        let partial = kept.with_extension(format!("{}.partial", std::process::id()));
        let result = receive(body.into_reader(), &partial, &progress).and_then(|()| {
            if build_id_of(&partial).ok().flatten().as_ref() != Some(build_id) {
                bail!("sends something that is not the debug file of this build");
            }
            Ok(fs::rename(&partial, kept)?)
        });
        if result.is_err() {
            let _ = fs::remove_file(&partial);
        }
        keep_below(&self.folder, MAX_KEPT_BYTES);
        result.map(|()| true)
    }
}

fn receive(body: impl Read, path: &Path, progress: &Download) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    let mut body = progress.0.wrap_read(body.take(MAX_FILE_BYTES + 1));
    let n_bytes = io::copy(&mut body, &mut file)?;
    if n_bytes > MAX_FILE_BYTES {
        bail!("sends more than {} GiB", MAX_FILE_BYTES >> 30);
    }
    Ok(file.flush()?)
}

/// A line on a terminal that shows what is downloaded and how much of it has come; cleared when dropped.
struct Download(ProgressBar);

impl Download {
    fn new(server: &str, build_id: &BuildIdText) -> Download {
        // Drawn on standard error, and only if that is a terminal.
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("downloading {msg} {bytes} {bytes_per_sec} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(format!("debug data {:.8} from {server}", build_id.as_str()));
        bar.enable_steady_tick(Duration::from_millis(120));
        Download(bar)
    }

    fn expect(&self, n_bytes: Option<u64>) {
        let template = "downloading {msg} {bytes} of {total_bytes} {bytes_per_sec} {elapsed}";
        if let (Some(n_bytes), Ok(style)) = (n_bytes, ProgressStyle::with_template(template)) {
            self.0.set_length(n_bytes);
            self.0.set_style(style);
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
