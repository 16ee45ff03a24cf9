//! Linker options: the library must need nothing, be initialized before anything else and stay.

fn main() {
    for option in ["-nostartfiles", "-nostdlib", "-Wl,-z,initfirst", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,defs"] {
        println!("cargo:rustc-cdylib-link-arg={option}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
