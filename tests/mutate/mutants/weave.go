package mutants

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A weave says how a change gets into the copy of its file: what is put around its node, and which
// spans are replaced. "%d" stands for the number of the switch.
type weave struct {
	wrap     wrap
	replaced []span
}

// A wrap is text before and after a node. Of several around the same node, the one with the higher
// level is outside.
type wrap struct {
	start, end    int
	before, after string
	level         int
}

// Levels of the changes of one node. An exchanged operator has to be next to its operands, and what
// removes a statement or fixes a condition is around everything else.
const (
	innermost = -1
	outermost = 1
)

type span struct {
	start, end int
	text       string
}

// call is a weave that passes the node to a switch.
func call(name string) weave {
	return weave{wrap: wrap{before: name + "(%d, ", after: ")"}}
}

// weaveFile returns the source with all changes in it, each behind its switch.
func weaveFile(source []byte, changes []*Mutant) []byte {
	var wraps []wrap
	var spans []span
	for _, m := range changes {
		number := strconv.Itoa(m.id)
		w := m.weave.wrap
		w.before, w.after = strings.ReplaceAll(w.before, "%d", number), strings.ReplaceAll(w.after, "%d", number)
		wraps = append(wraps, w)
		for _, s := range m.weave.replaced {
			s.text = strings.ReplaceAll(s.text, "%d", number)
			spans = append(spans, s)
		}
	}
	slices.SortStableFunc(wraps, func(a, b wrap) int { // from the outside
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(b.level, a.level))
	})
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.start, b.start) })

	opening, closing := map[int]string{}, map[int]string{}
	for _, w := range wraps {
		opening[w.start] += w.before
		closing[w.end] = w.after + closing[w.end]
	}
	var out strings.Builder
	for at := 0; at <= len(source); at++ {
		out.WriteString(closing[at])
		out.WriteString(opening[at])
		if len(spans) > 0 && spans[0].start == at {
			out.WriteString(spans[0].text)
			at = spans[0].end - 1
			spans = spans[1:]
			continue
		}
		if at < len(source) {
			out.WriteByte(source[at])
		}
	}
	return []byte(out.String())
}

// Diff returns the lines that change, as they are and as they would be.
func (m *Mutant) Diff(source []byte) (before, after []string) {
	from := strings.LastIndexByte(string(source[:m.start]), '\n') + 1
	to := len(source)
	if n := strings.IndexByte(string(source[m.end:]), '\n'); n >= 0 {
		to = m.end + n
	}
	before = strings.Split(string(source[from:to]), "\n")
	changed := string(source[from:m.start]) + m.text + string(source[m.end:to])
	if strings.TrimSpace(changed) == "" {
		return before, nil
	}
	after = strings.Split(changed, "\n")
	for len(before) > 1 && len(after) > 1 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 1 && len(after) > 1 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	return before, after
}
