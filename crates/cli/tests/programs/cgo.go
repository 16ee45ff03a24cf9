// A Go program with the C library in it. Go takes the signal of ticks for itself.
package main

// static unsigned long long step(unsigned long long x) { return (x >> 1) ^ (x << 7) * 0x9e3779b97f4a7c15u; }
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
)

func work(seed, rounds uint64) uint64 {
	x := seed
	for i := uint64(0); i < rounds; i++ {
		x = x*6364136223846793005 + 1442695040888963407
		if i%4096 == 0 {
			x = uint64(C.step(C.ulonglong(x)))
		}
	}
	return x
}

func main() {
	scale, _ := strconv.ParseUint(os.Args[1], 10, 64)
	results := make([]uint64, 4)
	var group sync.WaitGroup
	for i := range results {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results[i] = work(uint64(i), 2500000*scale)
		}(i)
	}
	group.Wait()
	runtime.GC()
	fmt.Println(results)
	os.Exit(3)
}
