package spelling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the known name that needs the fewest edits to become name, where capitals count
// half an edit. It is empty if every known name differs by more than half of its letters.
func Nearest(name string, known []string) string {
	type candidate struct {
		name  string
		edits int
	}
	var found []candidate
	for _, k := range known {
		edits := 2 * editCount(strings.ToLower(name), strings.ToLower(k))
		if edits == 0 && k != name {
			edits = 1
		}
		if edits <= max(len(name), len(k)) {
			found = append(found, candidate{k, edits})
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.MinFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.edits, b.edits), cmp.Compare(a.name, b.name))
	}).name
}

// DidYouMean returns "; did you mean NAME?" with the nearest known name, and nothing if none is near.
func DidYouMean(name string, known []string) string {
	if nearest := Nearest(name, known); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// maxCompared is how many bytes of two names are compared.
const maxCompared = 128

// editCount returns how many letters must be inserted, deleted, replaced, or exchanged with the
// next one, to turn a into b.
func editCount(a, b string) int {
	a, b = a[:min(len(a), maxCompared)], b[:min(len(b), maxCompared)]
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j]+cost, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
