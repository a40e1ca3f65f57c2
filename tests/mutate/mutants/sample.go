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

// Part returns one of several equal parts of the changes, so that many can be tried in turns: "2/4"
// is the second quarter, and "" is all.
func Part(drawn []*Mutant, name string) ([]*Mutant, error) {
	if name == "" {
		return drawn, nil
	}
	var n, of int
	if _, err := fmt.Sscanf(name, "%d/%d", &n, &of); err != nil || n < 1 || n > of {
		return nil, fmt.Errorf("there is no part %q: the second of four is 2/4", name)
	}
	return drawn[(n-1)*len(drawn)/of : n*len(drawn)/of], nil
}
