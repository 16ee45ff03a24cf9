//! Debug data from servers that work, and from those that do not.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::fixture::*;
use symbols::{Options, Status};

/// What a server does with a request.
enum Behaviour {
    Send(Vec<u8>),
    Refuse(&'static str),
    /// Sends a part of what it promised, then nothing.
    Stall(Vec<u8>),
    /// Sends a part of what it promised, then goes away.
    Abort(Vec<u8>),
    /// Never answers.
    Hang,
}

/// A server on a port of its own, with the requests it gets.
struct Server {
    url: String,
    requests: Receiver<String>,
}

impl Server {
    fn start(behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (sender, requests) = channel();
        std::thread::spawn(move || serve(&listener, &behaviour, &sender));
        Server { url, requests }
    }

    fn n_requests(&self) -> usize {
        self.requests.try_iter().count()
    }
}

fn serve(listener: &TcpListener, behaviour: &Behaviour, requests: &Sender<String>) {
    let mut open = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        let request = lines.next().expect("a request").expect("text");
        lines.map_while(Result::ok).find(String::is_empty);
        if requests.send(request).is_err() {
            return;
        }
        // A client that has given up is no fault of the server.
        let _ = answer(&mut stream, behaviour);
        if matches!(behaviour, Behaviour::Hang | Behaviour::Stall(_)) {
            open.push(stream);
        }
    }
}

fn answer(stream: &mut TcpStream, behaviour: &Behaviour) -> std::io::Result<()> {
    let head = |len: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    match behaviour {
        Behaviour::Hang => Ok(()),
        Behaviour::Refuse(status) => {
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Behaviour::Send(body) => stream.write_all(&[head(body.len()).as_bytes(), body].concat()),
        Behaviour::Stall(part) | Behaviour::Abort(part) => {
            stream.write_all(&[head(part.len() * 2).as_bytes(), part].concat())
        }
    }
}

/// A stripped program, its debug file, and the addresses of `outer`.
fn stripped(workshop: &Workshop) -> (String, Vec<u8>, std::ops::Range<u64>) {
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    let debug_file = workshop.name("away.debug");
    run("objcopy", &["--only-keep-debug", &program, &debug_file]);
    run("strip", &[&program]);
    let bytes = fs::read(&debug_file).expect("the debug file");
    fs::remove_file(&debug_file).expect("the debug file");
    (program, bytes, outer)
}

fn asking(workshop: &Workshop, servers: &[&Server], silence_timeout: Duration) -> Options {
    let servers = servers.iter().map(|server| server.url.clone()).collect();
    Options { servers, silence_timeout, ..workshop.offline() }
}

const PATIENT: Duration = Duration::from_secs(60);
const IMPATIENT: Duration = Duration::from_millis(100);

#[test]
fn the_server_is_asked_once_and_its_file_is_kept() {
    let workshop = Workshop::new();
    let (program, debug, outer) = stripped(&workshop);
    let [without, with] = [Behaviour::Refuse("404 Not Found"), Behaviour::Send(debug)].map(Server::start);
    let profile = profile(&program, BUILD_ID, &[]);
    let options = asking(&workshop, &[&without, &with], PATIENT);
    for _ in 0..2 {
        let symbolizer = resolved(&profile, &options, outer.clone());
        assert!(shows_inlining(&symbolizer, outer.clone()));
        assert!(symbolizer.faults().is_empty());
        assert_eq!(symbolizer.status(MODULE), Status::Ok);
    }
    assert_eq!(without.n_requests(), 1);
    let requests: Vec<String> = with.requests.try_iter().collect();
    assert_eq!(requests, [format!("GET /buildid/{BUILD_ID}/debuginfo HTTP/1.1")]);
    fs::remove_dir_all(workshop.path("cache").join("symbols")).unwrap();
    assert!(shows_inlining(&resolved(&profile, &options, outer.clone()), outer));
    assert_eq!(with.n_requests(), 0, "the download is kept");
}

#[test]
fn a_server_can_replace_the_binary() {
    let workshop = Workshop::new();
    let (program, debug, outer) = stripped(&workshop);
    fs::remove_file(&program).unwrap();
    let server = Server::start(Behaviour::Send(debug));
    let options = asking(&workshop, &[&server], PATIENT);
    let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &options, outer.clone());
    assert!(shows_inlining(&symbolizer, outer));
    assert_eq!(symbolizer.status(MODULE), Status::Missing);
}

#[test]
fn nobody_is_asked_without_need() {
    let workshop = Workshop::new();
    let program = workshop.compile_inlining(&[]);
    let outer = addresses_of(&program, "outer");
    let server = Server::start(Behaviour::Hang);
    let options = asking(&workshop, &[&server], PATIENT);
    assert!(shows_inlining(&resolved(&profile(&program, BUILD_ID, &[]), &options, outer.clone()), outer.clone()));
    run("strip", &[&program]);
    resolved(&profile(&program, BUILD_ID, &[]), &workshop.offline(), outer);
    assert_eq!(server.n_requests(), 0);
}

#[test]
fn a_silent_server_is_given_up() {
    let workshop = Workshop::new();
    let (program, debug, outer) = stripped(&workshop);
    for (case, behaviour) in [("hangs", Behaviour::Hang), ("stalls", Behaviour::Stall(debug))] {
        let server = Server::start(behaviour);
        let options = asking(&workshop, &[&server], IMPATIENT);
        let symbolizer = resolved(&profile(&program, BUILD_ID, &[(&outer, "outer")]), &options, outer.clone());
        let [fault] = symbolizer.faults() else { panic!("{case}: {:?}", symbolizer.faults()) };
        assert!(fault.to_string().contains(&server.url), "{case}: {fault}");
        assert_eq!(summary(&all_frames(&symbolizer, outer.clone())[0]), "outer:0", "{case}");
        assert_eq!(symbolizer.status(MODULE), Status::NoDebugInfo, "{case}");
        assert_eq!(workshop.kept("debuginfod").len(), 0, "{case}: nothing is left");
    }
}

#[test]
fn a_bad_server_is_one_fault_and_the_next_is_asked() {
    let workshop = Workshop::new();
    let (program, debug, outer) = stripped(&workshop);
    let mut other_build = debug.clone();
    let build_id_at = other_build.windows(3).position(|bytes| bytes == [0x00, 0x11, 0x22]).expect("the build-id");
    other_build[build_id_at] ^= 1;
    let half = debug[..debug.len() / 2].to_vec();
    for (case, behaviour) in [
        ("goes away", Behaviour::Abort(half.clone())),
        ("fails", Behaviour::Refuse("500 Internal Server Error")),
        ("sends garbage", Behaviour::Send(b"<html>".repeat(1000))),
        ("sends half a file", Behaviour::Send(half)),
        ("sends another build", Behaviour::Send(other_build)),
    ] {
        let [bad, good] = [behaviour, Behaviour::Send(debug.clone())].map(Server::start);
        let options = asking(&workshop, &[&bad, &good], PATIENT);
        let symbolizer = resolved(&profile(&program, BUILD_ID, &[]), &options, outer.clone());
        assert!(shows_inlining(&symbolizer, outer.clone()), "{case}: {:?}", symbolizer.faults());
        let [fault] = symbolizer.faults() else { panic!("{case}: {:?}", symbolizer.faults()) };
        assert!(fault.to_string().contains(&bad.url), "{case}: {fault}");
        assert_eq!(workshop.kept("debuginfod").len(), 1, "{case}: only the good file is left");
        fs::remove_dir_all(workshop.path("cache")).expect("the cache");
    }
}
