package tally_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/tally"
)

// The counts equal those of a map after any changes, and of a copy those at its time.
func TestCountsEqualAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var counts, copied tally.Counts
		want, atCopy := map[int32]int32{}, map[int32]int32{}
		most := rapid.SampledFrom([]int32{2, 30, 300}).Draw(t, "keys")
		for range rapid.IntRange(1, 300).Draw(t, "changes") {
			key, n := rapid.Int32Range(0, most).Draw(t, "key"), rapid.Int32Range(-2, 2).Draw(t, "n")
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				copied, atCopy = counts.Clone(), maps.Clone(want)
				continue
			case 1, 2, 3:
				counts.Set(key, n)
				want[key] = n
			default:
				want[key] += n
				if got := counts.Add(key, n); got != want[key] {
					t.Fatalf("%d is counted %d times, want %d", key, got, want[key])
				}
			}
			if want[key] == 0 {
				delete(want, key)
			}
			for _, c := range []struct {
				counts *tally.Counts
				want   map[int32]int32
			}{{&counts, want}, {&copied, atCopy}} {
				if got := maps.Collect(c.counts.All()); !maps.Equal(got, c.want) || c.counts.Len() != len(c.want) {
					t.Fatalf("counts %v, want %v", got, c.want)
				}
				if c.counts.Of(key) != c.want[key] || c.counts.Of(most+1) != 0 {
					t.Fatalf("%d is counted %d times, want %d", key, c.counts.Of(key), c.want[key])
				}
			}
		}
	})
}
