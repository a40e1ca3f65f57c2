package choice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostEdits returns how many edits of a word of so many letters are a slip: none in a single letter, 1 up
// to 5, 2 up to 11, and 3 beyond.
func mostEdits(letters int) int {
	switch {
	case letters <= 1:
		return 0
	case letters <= 5:
		return 1
	case letters <= 11:
		return 2
	}
	return 3
}

// Nearest returns the known name that needs the fewest edits to become name, where capitals count
// half an edit together. It is empty if every known name needs more edits than a slip makes.
func Nearest[T ~string](name string, known []T) T {
	type candidate struct {
		name  T
		edits int // in halves
	}
	var found []candidate
	for _, k := range known {
		edits := 2 * editCount(strings.ToLower(name), strings.ToLower(string(k)))
		if edits == 0 && string(k) != name {
			edits = 1
		}
		if edits <= max(1, 2*mostEdits(max(len(name), len(k)))) {
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
func DidYouMean[T ~string](name string, known []T) string {
	if nearest := Nearest(name, known); nearest != "" {
		return fmt.Sprintf("; did you mean %q?", nearest)
	}
	return ""
}

// List returns the values in words: "a", "a or b", "a, b or c".
func List[T ~string](values []T) string {
	var out strings.Builder
	for i, v := range values {
		switch {
		case i > 0 && i == len(values)-1:
			out.WriteString(" or ")
		case i > 0:
			out.WriteString(", ")
		}
		out.WriteString(string(v))
	}
	return out.String()
}

// End ends a sentence about a name that is not known: with a full stop, or if one is near, with
// `; did you mean "b"?`.
func End[T ~string](name string, known []T) string { return cmp.Or(DidYouMean(name, known), ".") }

// Expected ends a sentence about a text that is none of the values: "expected a, b or c." or, if one
// is near, "expected a, b or c; did you mean "b"?".
func Expected[T ~string](text string, values []T) string {
	return "expected " + List(values) + End(text, values)
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
