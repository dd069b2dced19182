#![no_main]

#[path = "../../tests/corpus/bounded.rs"]
mod bounded;
#[path = "../../tests/corpus/command_line.rs"]
mod command_line;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    command_line::rows(data);
});
