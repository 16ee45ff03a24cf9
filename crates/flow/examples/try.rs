//! scratch
use std::sync::atomic::*;
use flow::indirect::*;
struct T(usize);
impl flow::Executor for T {
    fn map<I: Sync, R: Send>(&self, items: &[I], work: impl Fn(&I) -> R + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let mut all: Vec<(usize,R)> = std::thread::scope(|s| {
            let hs: Vec<_> = (0..self.0).map(|_| s.spawn(|| { let mut o=vec![]; loop { let i=next.fetch_add(1,Ordering::Relaxed); if i>=items.len(){break o} o.push((i,work(&items[i]))); } })).collect();
            hs.into_iter().flat_map(|h| h.join().unwrap()).collect()
        });
        all.sort_by_key(|x| x.0);
        all.into_iter().map(|x| x.1).collect()
    }
}
fn main() {
    if let Ok(w)=std::env::var("WHERE") { let p=std::env::args().nth(1).unwrap(); let data=std::fs::read(&p).unwrap(); let image=image::Image::parse(&data).unwrap(); let m=flow::analyze(&image,&T(2)); for w in w.split(',') { let at=image::Svma(u64::from_str_radix(w,16).unwrap()); match m.function_at(at) { None=>println!("{w} none"), Some(f)=>println!("{w}: {} entry {} parts {:?} {:?} called {} taken {} blocks {} jumps {:?}", image.name_of(f.entry).raw, f.entry, f.parts, f.sources, f.called, f.address_taken, f.cfg.blocks.len(), f.indirect_jumps.iter().map(|j| (j.at, match &j.resolution {Resolution::Table(t)=>format!("{} {:?}",t.n_entries,t.bound), r=>format!("{r:?}")})).collect::<Vec<_>>())}} return; }
    let verbose = std::env::args().any(|a| a=="-v");
    for p in std::env::args().skip(1).filter(|a| a!="-v") {
        let t=std::time::Instant::now();
        let data = std::fs::read(&p).unwrap();
        let image = image::Image::parse(&data).unwrap();
        let t1=t.elapsed();
        let m = flow::analyze(&image, &T(2));
        let t2=t.elapsed();
        let mut paths=0u64; let mut maxlog=0f64;
        let plans: Vec<(u64,f64)> = flow::Executor::map(&T(2), &m.functions, |f| { let p=flow::paths::PathPlan::new(&f.cfg.graph,&flow::paths::PlanOptions{truncation:flow::paths::Truncation::BackEdges,order:flow::paths::EdgeOrder::Classic,max_paths:1<<32}); (p.n_paths(),p.log2_paths_before_extra_cuts()) });
        for (a,b) in plans {paths=paths.saturating_add(a); maxlog=maxlog.max(b)}
        let t3=t.elapsed();
        let insns: u64 = m.functions.iter().map(|f| f.n_insns as u64).sum();
        let blocks: usize = m.functions.iter().map(|f| f.cfg.blocks.len()).sum();
        let inc = m.functions.iter().filter(|f| !f.is_complete()).count();
        let tables = m.functions.iter().flat_map(|f| &f.indirect_jumps).filter(|j| matches!(j.resolution, Resolution::Table(_))).count();
        let tails = m.functions.iter().flat_map(|f| &f.indirect_jumps).filter(|j| matches!(j.resolution, Resolution::TailCall{..})).count();
        let unres = m.functions.iter().flat_map(|f| &f.indirect_jumps).filter(|j| matches!(j.resolution, Resolution::Unresolved(_))).count();
        let unk = m.functions.iter().flat_map(|f| &f.cfg.entry_kinds).filter(|k| **k==flow::cfg::EntryKind::Unknown).count();
        println!("{p}: fns {} insns {insns} blocks {blocks} incomplete {inc} ({:.2}%) tables {tables} tails {tails} unres {unres} unknown-entries {unk} data {} parse {:?} analyze {:?} plan {:?} maxlog2 {maxlog:.0} rss {}", m.functions.len(), 100.0*inc as f64/m.functions.len() as f64, m.functions.iter().map(|f| f.data_bytes).sum::<u64>(), t1, t2-t1, t3-t2, std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap());
        { let mut n=0; let mut e=0; for f in &m.functions { for b in f.cfg.graph.blocks() { if f.cfg.block(b).transfer.is_call() { for s in f.cfg.graph.successors(b) { let l=f.liveness.live_in(s) & flow::liveness::LiveSet::ARITHMETIC_FLAGS; if !l.is_empty() { n+=1; if n<6 {println!("  flags after call at {} in {}: {:?}", f.cfg.block(b).last(), f.entry, l);} } } } } let b=f.cfg.graph.entries()[0]; let l=f.liveness.live_in(b) & flow::liveness::LiveSet::ARITHMETIC_FLAGS; if !l.is_empty() { e+=1; if e<6 {println!("  flags at entry {} {:?}", f.entry,l);} } } println!("  flags live after {n} calls, at {e} entries"); }
        { let mut bad=0; for f in &m.functions { if let Err(e)=flow::verify::verify_cfg(&image,f) { bad+=1; if bad<5 {println!("  VERIFY {} {e}", f.entry);} } } if bad>0 {println!("  {bad} faults");} }
        if verbose { for f in &m.functions { for j in &f.indirect_jumps { if let Resolution::Unresolved(r)=&j.resolution { println!("  {} {} at {:?}: {r}", image.name_of(f.entry).raw, f.entry, j.at); } }
          let u=f.cfg.entry_kinds.iter().zip(f.cfg.graph.entries()).filter(|(k,_)| **k==flow::cfg::EntryKind::Unknown).map(|(_,b)| f.cfg.block(*b).range.start).collect::<Vec<_>>(); if !u.is_empty() {println!("  unk {} {:?}", image.name_of(f.entry).raw, &u[..u.len().min(6)]);} } }
    }
}
