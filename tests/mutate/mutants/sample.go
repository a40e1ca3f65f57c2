package mutants

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// Sample draws count of the changes, or all if there are fewer. The seed and the text of a change
// decide about it, so a sample hardly differs after a commit that changed other code.
func Sample(all []*Mutant, seed int64, count int) []*Mutant {
	rank := map[*Mutant]uint64{}
	for _, m := range all {
		sum := sha256.Sum256([]byte(fmt.Sprint(seed, "\x00", m.key(), "\x00", m.Nth)))
		rank[m] = binary.BigEndian.Uint64(sum[:])
	}
	position := map[*Mutant]int{}
	for n, m := range all {
		position[m] = n
	}
	drawn := slices.Clone(all)
	slices.SortFunc(drawn, func(a, b *Mutant) int { return cmp.Compare(rank[a], rank[b]) })
	drawn = drawn[:min(count, len(drawn))]
	slices.SortFunc(drawn, func(a, b *Mutant) int { return cmp.Compare(position[a], position[b]) })
	return drawn
}
