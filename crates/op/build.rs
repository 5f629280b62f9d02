//! Compiles the kernels of the floating-point types that Rust lacks.

fn main() {
    println!("cargo::rerun-if-changed=src/longdouble.c");
    cc::Build::new()
        .file("src/longdouble.c")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-fvisibility=hidden")
        .compile("yamabiko_longdouble");
}
