//! The client of debuginfod servers.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::cache::BuildIdText;
use crate::error::Error;

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest file that is accepted.
const MAX_FILE_GIB: u64 = 4;

#[derive(Debug)]
pub struct Client(Agent);

impl Client {
    pub fn new(silence_timeout: Duration) -> Result<Client, Error> {
        let config = Agent::config_builder()
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(silence_timeout))
            .timeout_per_read(Some(silence_timeout))
            .http_status_as_error(false)
            .user_agent("strobe")
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build());
        Ok(Client(config.build().into()))
    }

    /// Returns whether the server has the debug file of a build, which is then in `path`. `heard`
    /// is told the bytes that have arrived and those that were promised.
    pub fn receive(
        &self,
        server: &str,
        build_id: &BuildIdText,
        path: &Path,
        heard: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<bool, Error> {
        let failed =
            |cause: Box<dyn std::error::Error + Send + Sync>| Error::Server { server: server.to_owned(), cause };
        heard(0, None);
        let url = format!("{}/buildid/{}/debuginfo", server.trim_end_matches('/'), build_id.as_str());
        let response = self.0.get(&url).call().map_err(|cause| failed(cause.into()))?;
        match response.status().as_u16() {
            200 => {}
            404 => return Ok(false),
            status => return Err(Error::Refused { server: server.to_owned(), status }),
        }
        let body = response.into_body();
        let length = body.content_length();
        let limit = MAX_FILE_GIB << 30;
        let mut body = Heard { body: body.into_reader().take(limit + 1), received: 0, length, heard };
        let n_bytes = write(&mut body, path).map_err(|cause| failed(cause.into()))?;
        if n_bytes > limit {
            return Err(Error::TooLarge { server: server.to_owned(), limit_gib: MAX_FILE_GIB });
        }
        Ok(true)
    }
}

fn write(body: &mut impl Read, path: &Path) -> io::Result<u64> {
    let mut file = File::create(path)?;
    let n_bytes = io::copy(body, &mut file)?;
    file.flush()?;
    Ok(n_bytes)
}

/// Says how much has been read.
struct Heard<'a, R> {
    body: R,
    received: u64,
    length: Option<u64>,
    heard: &'a mut dyn FnMut(u64, Option<u64>),
}

impl<R: Read> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.body.read(buffer)?;
        self.received += n_bytes as u64;
        (self.heard)(self.received, self.length);
        Ok(n_bytes)
    }
}
