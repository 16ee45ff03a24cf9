"""Deterministic inputs for the corpus programs.

Usage: generate.py DIR SIZE [PROGRAM...]

Makes DIR/in and DIR/out; the commands of workloads.tsv then run from DIR. Everything follows from fixed seeds, so that two
machines with the same Debian packages run the same instructions. One function per program; a stamp per program holds the hash
of this file and the size, and an input whose stamp is current is not made again.

SIZE scales the work: long = 10 s of native CPU time per program or more, full = 1-4 s, short = about 0.3 s (for tools that slow a
program down 50 times), tiny = the least that still exercises the program. Of pairs, the first is for encoding, the second for
decoding.
"""

import hashlib
import itertools
import math
import os
import random
import shutil
import struct
import subprocess
import sys

SIZES = {
    "long": dict(
        text_bytes=16_000_000, text_repeats=5, records=250_000, c_functions=1000, go=(2, 62), perl_lines=850_000,
        gap=(9, 24, 9_000_000, 16, 130), sentences=1250, image_tiles=(12, 9), image=(2400, 1800), speech_seconds=480,
        speech_repeats=(40, 340), frames=(620, 75), video_repeats=400, chess=(12, 15), render=(1760, 1320),
        lua=(10, 2_000_000, 1_000_000, 23_000_000), newlisp=(21, 38, 200_000, 9), scheme=(24, 10),
        python=(10, 15_000_000, 10_000_000, 16_500_000, 820_000), network=(4200, 32_000, 215), sql=(580_000, 2_900_000),
        pdp11_outer=2200, device="8k", registers=92, cells=2650, annealing_speedup=1,
    ),
    "full": dict(
        text_bytes=16_000_000, text_repeats=1, records=250_000, c_functions=200, go=(1, 15), perl_lines=150_000,
        gap=(9, 24, 400_000, 16, 130), sentences=190, image_tiles=(4, 4), image=(2400, 1800), speech_seconds=480,
        speech_repeats=(8, 20), frames=(75, 75), video_repeats=60, chess=(12, 4), render=(640, 480),
        lua=(9, 300_000, 150_000, 3_500_000), newlisp=(21, 34, 40_000, 8), scheme=(18, 9),
        python=(9, 2_200_000, 1_500_000, 2_500_000, 120_000), network=(2300, 18_000, 120), sql=(120_000, 600_000),
        pdp11_outer=512, device="1k", registers=19, cells=700, annealing_speedup=1,
    ),
    "short": dict(
        text_bytes=1_600_000, text_repeats=1, records=27_000, c_functions=18, go=(1, 3), perl_lines=18_000,
        gap=(6, 11, 4_000, 8, 30), sentences=6, image_tiles=(2, 2), image=(1600, 1200), speech_seconds=80,
        speech_repeats=(5, 12), frames=(8, 4), video_repeats=130, chess=(9, 4), render=(128, 96),
        lua=(7, 60_000, 30_000, 500_000), newlisp=(15, 30, 12_000, 6), scheme=(14, 8),
        python=(7, 250_000, 150_000, 250_000, 12_000), network=(900, 7_000, 80), sql=(18_000, 90_000), pdp11_outer=50,
        device="1k", registers=2, cells=260, annealing_speedup=10,
    ),
    "tiny": dict(
        text_bytes=60_000, text_repeats=1, records=1_000, c_functions=2, go=(1, 1), perl_lines=300,
        gap=(5, 11, 200, 4, 10), sentences=2, image_tiles=(1, 1), image=(160, 120), speech_seconds=10,
        speech_repeats=(1, 1), frames=(3, 3), video_repeats=1, chess=(4, 1), render=(32, 24), lua=(5, 1_000, 500, 2_000),
        newlisp=(8, 12, 200, 4), scheme=(8, 4), python=(4, 2_000, 2_000, 5_000, 200), network=(120, 500, 20),
        sql=(300, 1_500), pdp11_outer=1, device="1k", registers=2, cells=30, annealing_speedup=50,
    ),
}


def zipf_text(n_bytes, seed):
    """Sentences over 6,000 pronounceable words with Zipf frequencies; also the generator's state after choosing the words."""
    rng = random.Random(42)
    syllable = lambda: rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou")
    words = ["".join(syllable() for _ in range(rng.randint(1, 4))) for _ in range(6000)]
    cumulative = list(itertools.accumulate(1 / (i + 5) for i in range(len(words))))
    line_rng, lines, size = random.Random(seed), [], 0
    while size < n_bytes:
        words_of_line = line_rng.choices(words, cum_weights=cumulative, k=line_rng.randint(6, 14))
        lines.append(" ".join(words_of_line).capitalize() + ("." if line_rng.random() < 0.8 else "?") + "\n")
        size += len(lines[-1])
    return "".join(lines)[:n_bytes], rng


def write(name, content):
    with open(name, "wb" if isinstance(content, (bytes, bytearray)) else "w") as file:
        file.write(content)


def text_files(p):
    """text.txt, mix.bin (text around binary records), big.bin (twice the text, for compress)."""
    n = p["text_bytes"]
    text, rng = zipf_text(n, 1)
    records = b"".join(
        struct.pack("<IHHd", i, (i * 7919) & 0xFFFF, rng.getrandbits(4), math.sin(i * 0.01)) for i in range(p["records"])
    )
    times = p["text_repeats"]
    write("text.txt", text * times)
    write("mix.bin", (text[: n // 2].encode() + records + text[n // 2 : 3 * n // 4].encode()) * times)
    write("big.bin", (text.encode() + records + zipf_text(n, 2)[0].encode()) * times)


def c_source(p):
    """A self-contained C file with loops, trees, switches, divisions and calls."""
    rng = random.Random(7)
    out = ["typedef unsigned long u64; typedef unsigned int u32; extern int ext(u64); struct n{struct n*l,*r;u64 k;u32 c[8];};"]
    for i in range(p["c_functions"]):
        out.append(f"static u64 g{i}[64];")
        out.append(f"u64 f{i}(struct n*p,u64 a,u32 b){{u64 s={rng.getrandbits(20)};u32 i,j;")
        out.extend(c_statement(rng, i) for _ in range(rng.randint(3, 7)))
        out.append(" return s;}")
    write("source.i", "\n".join(out) + "\n")


def c_statement(rng, i):
    int_in = rng.randint
    kind = int_in(0, 6)
    if kind == 0:
        return (
            f" for(i=0;i<b;i++){{ s+=g{i}[(i*{int_in(3, 61)})&63]^(a>>{int_in(1, 31)});"
            f" if(s&{1 << int_in(0, 9)}) s^=p->c[i&7]; }}"
        )
    if kind == 1:
        return " while(p&&p->k!=a){ s+=p->k; p=a<p->k?p->l:p->r; } if(!p) return s;"
    if kind == 2:
        head = f" switch((u32)s%{int_in(5, 11)}){{"
        cases = "".join(
            f"case {x}: s=s*{int_in(3, 99)}+{rng.getrandbits(16)}; {'break;' if rng.random() < 0.8 else ''}"
            for x in range(int_in(3, 9))
        )
        return head + cases + "default: s--; }"
    if kind == 3:
        return (
            " for(i=0;i<8;i++) for(j=i;j<8;j++) if(p->c[i]>p->c[j])"
            f"{{u32 t=p->c[i];p->c[i]=p->c[j];p->c[j]=t; s+={int_in(1, 9)};}}"
        )
    if kind == 4 and i:
        return f" s+=f{rng.randrange(i)}(p->l?p->l:p,s,(u32)(a>>3)&{int_in(3, 63)});"
    if kind == 5:
        return f" do{{ a=a/{int_in(3, 17)}+(a%{int_in(3, 17)})*{int_in(2, 9)}; s^=a; }}while(a>{int_in(50, 5000)});"
    return f" if(ext(s)) {{ s|=p->k; g{i}[b&63]+=s; }} else s=(s<<{int_in(1, 9)})|(s>>{int_in(40, 63)});"


def go_game(p):
    games, moves = p["go"]
    game = "clear_board\nkomi 5.5\n" + "genmove black\ngenmove white\n" * moves + "showboard\n"
    write("go.gtp", "boardsize 13\n" + game * games + "quit\n")


def perl_script(p):
    text_files(p)
    write("words.pl", r"""use strict; my (%h,%b,$tot); open my $f,'<','in/text.txt' or die; my $n=0;
while(<$f>){ last if ++$n>LINES; chomp;
 for my $w (split /\W+/){ my $k=lc $w; $h{$k}++; $b{$1.$2}+=length $k if $k=~/^(.)[aeiou]*(.)/; }
 $tot++ if /\b(\w)\w*\1\b.*\b(\w+) .* \2\b/; s/([aeiou])([^aeiou\s])/$2$1/g; $tot+=ord(substr($_,$n%length($_),1)); }
my @k=sort { $h{$b}<=>$h{$a} || $a cmp $b } keys %h; print "$_ $h{$_}\n" for @k[0..50];
print join(",",map {"$_=$b{$_}"} sort keys %b),"\n$tot\n";
""".replace("LINES", str(p["perl_lines"])))


def gap_session(p):
    """The session starts from a saved workspace: reading GAP's library takes a second and is always the same."""
    symmetric, mathieu, primes, sylow, rank = p["gap"]
    write("groups.g", f"""SizeScreen([200]);; g:=SymmetricGroup({symmetric});; Print(Size(ConjugacyClasses(g)),"\\n");
m:=MathieuGroup({mathieu});; Print(Size(m)," ",Length(ConjugacyClasses(m)),"\\n");
s:=0;; for i in [1..{primes}] do if IsPrimeInt(i*i+1) then s:=s+i; fi; od; Print(s,"\\n");
h:=SylowSubgroup(SymmetricGroup({sylow}),2);; Print(Size(Centre(h))," ",Size(DerivedSubgroup(h))," ",NrMovedPoints(h),"\\n");
Print(Determinant(List([1..{rank}],i->List([1..{rank}],j->(i*j*j+7*i+3) mod 101))),"\\n"); QUIT;
""")
    write("save.g", 'SaveWorkspace("library.ws"); QUIT;\n')
    run("/usr/lib/x86_64-linux-gnu/gap/gap", "-l", "/usr/lib/gap;/usr/share/gap", "-q", "-A", "-r", "save.g")


def sentences(p):
    rng = random.Random(11)
    nouns = "dog cat teacher program engineer house river problem machine child".split()
    verbs = "saw liked found described repaired followed remembered".split()
    adjectives = "big old careful strange quiet quick".split()
    prepositions = "in on near under behind with".split()

    def noun_phrase(depth=0):
        phrase = "the " + (rng.choice(adjectives) + " " if rng.random() < 0.5 else "") + rng.choice(nouns)
        if depth < 2 and rng.random() < 0.5:
            phrase += " " + rng.choice(prepositions) + " " + noun_phrase(depth + 1)
        if depth < 2 and rng.random() < 0.3:
            phrase += " that " + rng.choice(verbs) + " " + noun_phrase(depth + 1)
        return phrase

    def sentence():
        subject, verb, object_ = noun_phrase().capitalize(), rng.choice(verbs), noun_phrase()
        endings = [
            ".",
            f" and {rng.choice(verbs)} {noun_phrase()}.",
            f" because {noun_phrase()} {rng.choice(verbs)} {noun_phrase()}.",
        ]
        return f"{subject} {verb} {object_}{rng.choice(endings)}\n"

    write("sentences.txt", "".join(sentence() for _ in range(p["sentences"])))


def image(p):
    picture(p, p["image_tiles"][0], "image.ppm")


def picture(p, tiles, name):
    """Waves, noise and hard edges, tiled."""
    width, height = p["image"]
    rng = random.Random(5)
    noise = bytes(rng.getrandbits(4) for _ in range(65536))
    wave_x = [int(60 * math.sin(x * 0.013)) for x in range(width)]
    wave_y = [int(60 * math.cos(y * 0.017)) for y in range(height)]
    rows = []
    for y in range(height):
        row = bytearray(width * 3)
        for x in range(width):
            value = 128 + wave_x[x] + wave_y[y] + noise[(x * 31 + y * 977) & 65535] - 8
            if ((x // 97) ^ (y // 83)) & 3 == 0:
                value = 255 - value
            value = max(0, min(255, value))
            row[3 * x : 3 * x + 3] = bytes((value, (value + x // 16) & 255, value * 3 >> 2))
        rows.append(bytes(row) * tiles)
    write(name, b"P6\n%d %d\n255\n" % (width * tiles, height * tiles) + b"".join(rows) * tiles)


def compressed_image(p):
    picture(p, p["image_tiles"][1], "plain.ppm")
    run("cjpeg", "-quality", "90", "-progressive", "-arithmetic", "-outfile", "image.jpg", "plain.ppm")
    os.remove("plain.ppm")


def speech(p):
    """Voiced tones with gliding pitch, 8 kHz, 16 bits, mono."""
    rng = random.Random(9)
    n_samples, phase, samples = 8000 * p["speech_seconds"], 0.0, []
    for i in range(n_samples):
        pitch = 180 + 120 * math.sin(i * 0.0003) + 40 * ((i // 4000) % 5)
        phase += 2 * math.pi * pitch / 8000
        envelope = 0.3 + 0.7 * abs(math.sin(i * 0.0009))
        tone = math.sin(phase) + 0.5 * math.sin(2 * phase) + 0.25 * math.sin(5 * phase)
        samples.append(int(max(-32767, min(32767, 9000 * envelope * tone + rng.gauss(0, 200)))))
    return struct.pack("<%dh" % n_samples, *samples)


def speech_pcm(p):
    write("speech.pcm", speech(p) * p["speech_repeats"][0])


def speech_gsm(p):
    write("speech_once.pcm", speech(p))
    with open("speech_once.gsm", "wb") as file:
        run("toast", "-l", "-p", "-c", "speech_once.pcm", stdout=file)
    write("speech.gsm", open("speech_once.gsm", "rb").read() * p["speech_repeats"][1])


def video(p):
    frames(p["frames"][0], "video.y4m")


def frames(n_frames, name):
    """352x288 frames: a scrolling texture with a moving box."""
    width, height = 352, 288
    rng = random.Random(3)
    texture = [
        [(int(90 + 60 * math.sin(x * 0.11) * math.cos(y * 0.07)) + rng.getrandbits(4)) & 255 for x in range(512)]
        for y in range(512)
    ]
    with open(name, "wb") as file:
        file.write(b"YUV4MPEG2 W352 H288 F25:1 Ip A1:1 C420jpeg\n")
        for frame in range(n_frames):
            file.write(b"FRAME\n")
            dx, dy = (frame * 3) % 160, (frame * 2) % 220
            for y in range(height):
                row = bytearray(texture[y + dy][dx : dx + width])
                if 100 < y < 180:
                    left = (frame * 5) % 260
                    row[left : left + 60] = bytes((200 + ((y * j) >> 6) % 40) for j in range(60))
                file.write(row)
            for plane in range(2):
                for y in range(height // 2):
                    file.write(bytes((128 + ((x + frame + plane * y) >> 4) % 20) for x in range(width // 2)))


def compressed_video(p):
    frames(p["frames"][1], "video_once.y4m")
    with open("video_once.y4m", "rb") as file:
        run("mpeg2enc", "-v", "0", "-M", "0", "-f", "3", "-b", "3000", "-o", "video_once.m2v", stdin=file)
    write("video.m2v", open("video_once.m2v", "rb").read() * p["video_repeats"])


def chess(p):
    depth, moves = p["chess"]
    write("chess.txt", f"depth {depth}\n" + "go\n" * moves + "quit\n")


def scene(p):
    """Sixty reflecting solids on a chessboard."""
    rng = random.Random(21)
    out = [
        "#version 3.7; global_settings{assumed_gamma 1 max_trace_level 6} camera{location <0,4,-14> look_at <0,1,0>}"
        " light_source{<20,30,-20> rgb 1} light_source{<-20,20,-10> rgb .5}"
        " plane{y,-1 pigment{checker rgb .2 rgb .9} finish{reflection .2}}"
    ]
    for i in range(60):
        x, y, z = rng.uniform(-7, 7), rng.uniform(-0.5, 4), rng.uniform(-4, 8)
        at = "<%f,%f,%f>" % (x, y, z)
        color = "<%.2f,%.2f,%.2f>" % (rng.random(), rng.random(), rng.random())
        solid = [
            f"sphere{{{at},{rng.uniform(0.3, 0.9):f}",
            f"torus{{{rng.uniform(0.5, 0.9):f},.2 rotate x*{rng.randint(0, 90)} translate {at}",
            f"difference{{box{{-.5,.5}} sphere{{0,.62}} rotate <20,{rng.randint(0, 90)},10> translate {at}",
            f"blob{{threshold .5 sphere{{<0,0,0>,.9,1}} sphere{{<.5,.3,0>,.7,1}} translate {at}",
        ][i % 4]
        pigment = f"color rgb {color}" if i % 5 else f"marble turbulence .7 color_map{{[0 rgb {color}][1 rgb 1]}}"
        out.append(f"{solid} pigment{{{pigment}}} finish{{phong .7 reflection .25}}}}")
    write("scene.pov", "\n".join(out) + "\n")
    write("render.ini", "Input_File_Name=in/scene.pov\nWidth=%d\nHeight=%d\n" % p["render"])


def lua_script(p):
    queens, numbers, strings, objects = p["lua"]
    write("work.lua", f"""local function q(n) local c=0; local a,b,d={{}}, {{}}, {{}};
 local function p(r) if r>n then c=c+1 return end for i=1,n do if not a[i] and not b[r+i] and not d[r-i+n] then
  a[i]=true b[r+i]=true d[r-i+n]=true p(r+1) a[i]=false b[r+i]=false d[r-i+n]=false end end end p(1) return c end
print(q({queens})) print(q({queens - 1}))
local t={{}} for i=1,{numbers} do t[i]=(i*7919)%1000003 end table.sort(t) print(t[1],t[{numbers // 2}])
local s={{}} for i=1,{strings} do s[#s+1]=string.format("%d:%x",i,i*31) end local str=table.concat(s,",")
local n=0 for a,b in str:gmatch("(%d+):(%x+)") do n=n+tonumber(a)+tonumber(b,16)%7 end print(n)
local P={{}} P.__index=P function P.new(x,y) return setmetatable({{x=x,y=y}},P) end
function P:add(o) return P.new(self.x+o.x,self.y*0.5+o.y) end
local z=P.new(0,0) for i=1,{objects} do z=z:add(P.new(i,i%3)) end print(z.x,z.y)
""")


def newlisp_script(p):
    tak, fib, numbers, queens = p["newlisp"]
    write("work.lsp", f"""(define (tak x y z) (if (>= y x) z (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))
(println (tak {tak} 13 6)) (define (fib n) (if (< n 2) 1 (+ (fib (- n 1)) (fib (- n 2))))) (println (fib {fib}))
(set 'l (map (fn (i) (% (* i 7919) 10007)) (sequence 1 {numbers}))) (sort l) (println (l 0) " " (l {numbers // 2}) " " (apply + l))
(define (ok? c b d) (let (r true k 1) (dolist (x b) (if (or (= x c) (= (abs (- x c)) k)) (setq r nil)) (++ k)) r))
(define (queens n b d) (if (= d n) 1 (let (s 0) (for (c 1 n) (if (ok? c b d) (++ s (queens n (cons c b) (+ d 1))))) s)))
(println (queens {queens} '() 0)) (exit)
""")


def scheme_script(p):
    tak, queens = p["scheme"]
    write("work.scm", f"""(define (tak x y z) (if (not (< y x)) z (tak (tak (- x 1) y z) (tak (- y 1) z x) (tak (- z 1) x y))))
(display (tak {tak} {tak * 2 // 3} {tak // 3})) (newline)
(define (ok? c b k) (cond ((null? b) #t) ((or (= (car b) c) (= (abs (- (car b) c)) k)) #f) (else (ok? c (cdr b) (+ k 1)))))
(define (queens n b d) (if (= d n) 1
 (let loop ((c 1) (s 0)) (if (> c n) s (loop (+ c 1) (if (ok? c b 1) (+ s (queens n (cons c b) (+ d 1))) s))))))
(display (queens {queens} '() 0)) (newline)
""")


def python_script(p):
    text_files(p)
    queens, objects, keys, n_bytes, rows = p["python"]
    write("work.py", f"""import re,json,hashlib
class V:
    __slots__=('x','y')
    def __init__(s,x,y): s.x=x; s.y=y
    def __add__(s,o): return V(s.x+o.x,s.y^o.y)
def nq(n,r=0,a=0,b=0,c=0):
    if r==n: return 1
    t=0
    for i in range(n):
        if not(a>>i&1 or b>>(r+i)&1 or c>>(r-i+n)&1): t+=nq(n,r+1,a|1<<i,b|1<<(r+i),c|1<<(r-i+n))
    return t
print(nq({queens})); v=V(0,0)
for i in range({objects}): v=v+V(i,i*3)
print(v.x,v.y); d={{}}
for i in range({keys}): k=(i*7919)%50021; d[k]=d.get(k,0)+i
print(sum(k*x for k,x in d.items())%1000000007)
t=open('in/text.txt').read({n_bytes}); w=re.findall(r'\\b([a-z])[a-z]*\\1\\b',t); print(len(w))
print(len(json.dumps(json.loads(json.dumps([{{"a":i,"b":str(i)}} for i in range({rows})])))))
g=sorted(t.split(),key=lambda s:(len(s),s[::-1])); print(g[0],g[-1],hashlib.sha256(' '.join(g).encode()).hexdigest())
""")


def network(p):
    """Minimum-cost flow in DIMACS format: a backbone path plus random short arcs."""
    rng = random.Random(17)
    nodes, n_arcs, sources = p["network"]
    arcs = [(i, i + 1, 400, rng.randint(40, 90)) for i in range(1, nodes)]
    for _ in range(n_arcs):
        a = rng.randint(1, nodes - 1)
        arcs.append((a, min(nodes, a + rng.randint(1, 120)), rng.randint(1, 40), rng.randint(1, 100)))
    supply = [(i * 5, rng.randint(1, 5)) for i in range(1, sources + 1)]
    lines = [f"p min {nodes} {len(arcs)}"]
    lines += [f"n {node} {units}" for node, units in supply]
    lines.append(f"n {nodes} {-sum(units for _, units in supply)}")
    lines += ["a %d %d 0 %d %d" % arc for arc in arcs]
    write("network.min", "\n".join(lines) + "\n")


def orders_sql(p):
    parts, orders = p["sql"]
    count = lambda n: f"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<{n})"
    write("orders.sql", f"""PRAGMA journal_mode=MEMORY; CREATE TABLE part(id INTEGER PRIMARY KEY,name TEXT,grp INT,price REAL);
CREATE TABLE ord(id INTEGER PRIMARY KEY,pid INT,qty INT,note TEXT);
BEGIN; {count(parts)} INSERT INTO part SELECT i,printf('part-%06d-%x',(i*7919)%120011,i),(i*31)%97,((i*13)%1009)/7.0 FROM c;
{count(orders)} INSERT INTO ord SELECT i,1+(i*7907)%{parts},(i*17)%50,hex(i*i) FROM c; COMMIT;
CREATE INDEX i1 ON part(name); CREATE INDEX i2 ON ord(pid,qty);
SELECT grp,count(*),sum(qty*price) FROM ord JOIN part ON part.id=ord.pid GROUP BY grp ORDER BY grp;
SELECT count(*) FROM part WHERE name LIKE '%7a%'; UPDATE ord SET qty=qty+1 WHERE pid%3=0; DELETE FROM part WHERE grp IN (3,5,7);
SELECT name FROM part ORDER BY name DESC LIMIT 5; SELECT sum(length(note)),count(DISTINCT substr(note,1,5)) FROM ord;
PRAGMA integrity_check;
""")


def pdp11_program(p):
    """PDP-11 machine code: a nested loop with a congruential generator, a table, a branch and a subroutine."""
    inner_loop, outer_loop, subroutine = 4, 2, 26
    sob = lambda register, at, target: 0o077000 | register << 6 | (at + 1 - target)
    program = [
        0o012705, p["pdp11_outer"],      # MOV #outer,R5
        0o012700, 0o077777,              # outer: MOV #77777,R0
        0o010103,                        # inner: MOV R1,R3
        0o006303,                        # ASL R3
        0o006303,                        # ASL R3
        0o060301,                        # ADD R3,R1
        0o062701, 0o030071,              # ADD #30071,R1
        0o010103,                        # MOV R1,R3
        0o042703, 0o177001,              # BIC #177001,R3: an even number up to 776
        0o060163, 0o010000,              # ADD R1,10000(R3)
        0o016302, 0o010000,              # MOV 10000(R3),R2
        0o032702, 0o000004,              # BIT #4,R2
        0o001402,                        # BEQ over the next instruction
        0o005263, 0o010002,              # INC 10002(R3)
        0o004767, (subroutine - 24) * 2, # JSR PC,subroutine
        sob(0, 24, inner_loop),          # SOB R0,inner
        0o000402,                        # BR over the subroutine
        0o060201,                        # subroutine: ADD R2,R1
        0o000207,                        # RTS PC
        sob(5, 28, outer_loop),          # SOB R5,outer
        0o000000,                        # HALT
    ]
    lines = ["set cpu 11/70"]
    lines += ["d -o %o %o" % (0o1000 + 2 * i, word) for i, word in enumerate(program)]
    lines += ["d pc 1000", "d sp 700", "run 1000", "e r0-r5,pc", "e 10000-10776", "exit"]
    write("pdp11.ini", "\n".join(lines) + "\n")


def fpga_design(p):
    """Cross-coupled shift registers, synthesized to a netlist, and the options for a device that has room for it."""
    rng = random.Random(33)
    n = p["registers"]
    out = ["module top(input clk,input [7:0] a,output reg [7:0] q);"]
    for i in range(n):
        out.append(
            f" reg [15:0] s{i}; always @(posedge clk) s{i} <= {{s{i}[14:0],"
            f"s{i}[15]^s{(i + 1) % n}[{rng.randint(0, 15)}]^a[{i % 8}]}} + (s{(i * 5 + 3) % n} ^ {rng.getrandbits(16)});"
        )
    out.append(" always @(posedge clk) q <= " + "^".join(f"s{i}[15:8]" for i in range(n)) + ";\nendmodule")
    write("design.v", "\n".join(out) + "\n")
    device = p["device"]
    write("device", f"-d {device} -c /usr/share/fpga-icestorm/chipdb/chipdb-{device}.txt\n")
    run("yosys", "-q", "-p", "read_verilog design.v; synth_ice40 -top top -blif design.blif")


PLACEMENT_PARAMETERS = """RULES
layer metal1 0.07 0.0 vertical
layer metal2 0.07 0.0 horizontal
via via12 metal1 metal2
width metal1 40
width metal2 40
width via12 40
spacing metal1 metal1 40
spacing metal2 metal2 40
spacing via12 via12 40
overhang via12 metal1 8
overhang via12 metal2 8
ENDRULES
*vertical_wire_weight : 1.0
*vertical_path_weight : 1.0
*padspacing : variable
*rowSep : 0.0 0
*track.pitch : 80
*graphics.wait : off
*last_chance.wait : off
*random.seed : 12345
TWMC*chip.aspect.ratio : 1.0
TWSC*feedThruWidth : 160 layer 1
TWSC*do.global.route : on
TWSC*ignore_feeds : true
TWSC*call_row_evener : true
TWSC*even_rows_maximally : true
GENR*row_to_tile_spacing: 1
GENR*feed_percentage : 0
"""


def placement(p):
    """Standard cells to place; graywolf itself prepares the files that its TimberWolfSC step reads."""
    rng = random.Random(77)
    n_cells = p["cells"]
    shutil.rmtree("place", ignore_errors=True)
    os.makedirs("place")
    nets = [f"n{i}" for i in range(n_cells + 20)]
    lines = []
    for i in range(1, n_cells + 1):
        pins = rng.randint(2, 4)
        half = 80 * (pins + 1)
        lines.append(f"cell {i} C{i}\nleft {-half} right {half} bottom -1000 top 1000")
        for pin in range(pins):
            net = nets[i if pin == 0 else max(0, min(n_cells + 19, int(rng.gauss(i, 25))))]
            lines.append(f"pin name P{pin} signal {net} layer 1 {-half + 160 * pin + 80} {rng.choice([-400, 0, 400])}")
    for i in range(1, 21):
        net = nets[i * n_cells // 35]
        lines.append(f"pad {i} name twpin_io{i}\ncorners 4 -80 -80 -80 80 80 80 80 -80\npin name io{i} signal {net} layer 1 0 0")
    write("place/d.cel", "\n".join(lines) + "\n")
    speedup = p["annealing_speedup"]
    write("place/d.par", PLACEMENT_PARAMETERS + (f"TWSC*fast : {speedup}\n" if speedup > 1 else ""))
    run("graywolf", "-n", "d", cwd="place")


MAKERS = {
    "go": go_game, "gcc": c_source, "perl": perl_script, "compress": text_files, "bzip2": text_files, "gzip": text_files,
    "gap": gap_session, "parser": sentences, "cjpeg": image, "djpeg": compressed_image, "gsmenc": speech_pcm,
    "gsmdec": speech_gsm, "mpegenc": video, "mpegdec": compressed_video, "crafty": chess, "eon": scene, "li_lua": lua_script,
    "li_newlisp": newlisp_script, "li_scheme": scheme_script, "mcf": network, "vortex": orders_sql, "python": python_script,
    "m88ksim": pdp11_program, "vpr": fpga_design, "twolf": placement,
}


def run(*command, cwd=None, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
    result = subprocess.run(command, cwd=cwd, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {result.returncode}: {result.stderr.decode(errors='replace').strip()}")


def main():
    directory, size, *programs = sys.argv[1:]
    stamp = hashlib.sha256(open(__file__, "rb").read() + size.encode()).hexdigest()
    for name in ("in", "out", "stamps"):
        os.makedirs(os.path.join(directory, name), exist_ok=True)
    os.chdir(os.path.join(directory, "in"))
    done = set()
    for program in programs or MAKERS:
        stamp_file = os.path.join("..", "stamps", program)
        if os.path.exists(stamp_file) and open(stamp_file).read() == stamp:
            continue
        if MAKERS[program] not in done:
            MAKERS[program](SIZES[size])
            done.add(MAKERS[program])
        write(stamp_file, stamp)
        print(program, flush=True)


if __name__ == "__main__":
    main()
