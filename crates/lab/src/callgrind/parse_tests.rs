//! The reader on hand-written recordings.

use super::*;

const HEADER: &str = "version: 1\ncreator: callgrind\ncmd: x=1 y\npositions: instr line\nevents: Ir\nsummary: 9\n\n";

fn read(body: &str) -> Result<Recording, String> {
    parse(format!("{HEADER}{body}").as_bytes()).map_err(|error| error.to_string())
}

fn to(from: u64, object: usize, to: u64) -> Transition {
    Transition { from: Svma(from), to_object: Some(ObjectId(object)), to: Svma(to) }
}

#[test]
fn relative_addresses_follow_the_previous_cost_line() {
    let recording =
        read("ob=(1) /bin/x\nfl=(1) ???\nfn=(1) main\n0x1000 5 1\n+4 * 2\n* +1 3\n-2 -1 1\n\ntotals: 7\n").unwrap();
    let executed = &recording.objects[0].executed;
    assert_eq!(recording.objects[0].path, "/bin/x");
    assert_eq!(executed.len(), 3);
    assert_eq!((executed[&Svma(0x1000)], executed[&Svma(0x1004)], executed[&Svma(0x1002)]), (1, 5, 1));
    assert_eq!(recording.total_instructions, 7);
}

#[test]
fn a_jump_belongs_to_the_next_line_and_both_are_relative_to_the_previous_cost_line() {
    let recording = read(
        "ob=(1) /bin/x\nfn=(1) f\n0x1000 0 4\njcnd=3/4 +16 0 \n+2 0 \n+4 0 1\njump=1 0x1000 0 \n* 0 \ntotals: 5\n",
    );
    let object = &recording.unwrap().objects[0];
    let conditional = JumpCount { taken: 3, executed_conditionally: Some(4) };
    let unconditional = JumpCount { taken: 1, executed_conditionally: None };
    assert_eq!(
        object.jumps,
        HashMap::from([(to(0x1002, 0, 0x1010), conditional), (to(0x1004, 0, 0x1000), unconditional)])
    );
    assert_eq!(object.executed, HashMap::from([(Svma(0x1000), 4), (Svma(0x1004), 1)]));
}

#[test]
fn the_callees_object_holds_for_one_call() {
    let recording = read(
        "ob=(1) /bin/x\nfn=(1) f\n0x1000 0 2\ncob=(2) /lib/c\ncfi=(3) c.c\ncfn=(2) malloc\ncalls=2 0x500 7\n* 0 900\n\
         cfn=(3) g\ncalls=1 0x2000 0\n* 0 5\ntotals: 2\n",
    );
    let recording = recording.unwrap();
    assert_eq!(recording.objects[1].path, "/lib/c");
    assert_eq!(recording.objects[0].calls, HashMap::from([(to(0x1000, 1, 0x500), 2), (to(0x1000, 0, 0x2000), 1)]));
    assert!(recording.objects[1].calls.is_empty());
}

#[test]
fn a_jump_to_another_function_finds_its_object_even_if_that_comes_later() {
    let recording = read(
        "ob=(1) /bin/x\nfn=(1) f\n0x1000 0 1\njfi=(4) z.c\njfn=(9)\njump=1 0x500 0\n* 0\njfn=(8)\njump=1 0x9 0\n* 0\n\
         \nob=(2) /lib/c\nfn=(9) g\n0x500 0 1\ntotals: 2\n",
    );
    let recording = recording.unwrap();
    let targets: Vec<_> = recording.objects[0].jumps.keys().map(|jump| (jump.to.0, jump.to_object)).collect();
    assert_eq!(targets.len(), 2);
    assert!(targets.contains(&(0x500, Some(ObjectId(1)))));
    assert!(targets.contains(&(0x9, None)));
}

#[test]
fn counts_of_one_pair_add_up_over_functions_and_threads() {
    let section = "fn=(1) f\n0x1000 0 1\njcnd=1/2 0x1000 0\n* 0\n\n";
    let recording =
        read(&format!("ob=(1) x\n{section}fn=(2) g\n{section}totals: 2\npart: 2\nob=(1)\n{section}totals: 1\n"));
    let object = &recording.unwrap().objects[0];
    assert_eq!(object.jumps[&to(0x1000, 0, 0x1000)], JumpCount { taken: 3, executed_conditionally: Some(6) });
}

#[test]
fn code_without_a_file_goes_to_the_unknown_object() {
    let recording = read("fn=(1) 0x4838030\n0x4838030 0 1\ntotals: 1\n").unwrap();
    assert_eq!(recording.objects[0].path, UNKNOWN_OBJECT);
}

#[test]
fn names_may_be_uncompressed() {
    let recording =
        read("ob=/bin/x\nfn=main\n0x1 0 1\nob=/bin/y\nfn=f\n0x1 0 1\nob=/bin/x\nfn=main\n0x1 0 1\ntotals: 3\n");
    let recording = recording.unwrap();
    assert_eq!((recording.objects.len(), recording.objects[0].executed[&Svma(1)]), (2, 2));
}

#[test]
fn damaged_files_are_refused_with_the_line() {
    let cases = [
        ("ob=(1) x\nfn=(1) f\n0x1 0 1\n", "line 11: the file ends without totals; was callgrind killed?"),
        (
            "ob=(1) x\nfn=(1) f\n0x1 0 1\ntotals: 2\n",
            "line 12: cost lines add up to 1 instructions, but the file claims 2",
        ),
        ("ob=(7)\n", "line 8: name (7) is used before it is defined"),
        ("0x1 0 1\n", "line 8: cost before the first function"),
        ("ob=(1) x\nfn=(1) f\n0xzz 0 1\n", "line 10: not a callgrind line: \"0xzz\""),
        ("ob=(1) x\ncalls=1\n", "line 9: not a callgrind line: \"1\""),
        ("gibberish\n", "line 8: not a callgrind line: \"gibberish\""),
        ("positions: line\n", "line 8: no instruction addresses; run with --dump-instr=yes"),
    ];
    for (body, message) in cases {
        assert_eq!(read(body), Err(message.to_owned()), "{body:?}");
    }
}

#[test]
fn recordings_merge_by_path() {
    let mut all = read("ob=(1) x\nfn=(1) f\n0x1 0 1\ncob=(2) y\ncfn=(2) g\ncalls=1 0x7 0\n* 0 0\ntotals: 1\n").unwrap();
    let other =
        "ob=(1) y\nfn=(1) g\n0x7 0 2\nob=(2) x\nfn=(2) f\n0x1 0 3\ncob=(1)\ncfn=(1)\ncalls=2 0x7 0\n* 0 0\ntotals: 5\n";
    all.merge(read(other).unwrap());
    assert_eq!((all.objects.len(), all.total_instructions), (2, 6));
    assert_eq!(all.objects[0].executed, HashMap::from([(Svma(1), 4)]));
    assert_eq!(all.objects[0].calls, HashMap::from([(to(1, 1, 7), 3)]));
    assert_eq!(all.objects[1].executed, HashMap::from([(Svma(7), 2)]));
}
