package simulation

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
)

func TestScan(t *testing.T) {
	n, err := strconv.ParseUint(os.Getenv("SCAN"), 10, 63)
	if err != nil {
		t.Skip("no SCAN")
	}
	from, _ := strconv.ParseUint(os.Getenv("FROM"), 10, 63)
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := from
	for range 2 {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= from+n {
					return
				}
				out := Simulate(Run{Seed: seed, LoseEvents: os.Getenv("LOSE") != "", Away: os.Getenv("AWAY") != ""})
				if len(out.Broken) > 0 {
					mu.Lock()
					fmt.Printf("%d: %.260s (%d)\n", seed, out.Broken[0], len(out.Broken))
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}
