// A library with Go's runtime, for programs in C.
package main

import "C"

import "sync"

//export Work
func Work(seed, rounds uint64) uint64 {
	results := make([]uint64, 4)
	var group sync.WaitGroup
	for i := range results {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			x := seed + uint64(i)
			for n := uint64(0); n < rounds; n++ {
				x = x*6364136223846793005 + 1442695040888963407
			}
			results[i] = x
		}(i)
	}
	group.Wait()
	return results[0] ^ results[1] ^ results[2] ^ results[3]
}

func main() {}
