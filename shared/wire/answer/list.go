package answer

import (
	"slices"
	"strings"
)

// A List merges a list of ECS with what Berth shows otherwise: it leaves some of ECS's items out, and adds
// others.
type List struct {
	Compare  func(a, b string) int  // the order of ECS's items; nil: they have none, and Added comes last
	IsHidden func(item string) bool // nil leaves out none
	Added    []string               // in the order of Compare, or of texts
}

// A Cursor is a place on a page of ECS's items.
type Cursor struct {
	Item  string // the last item of ECS that is done, "" at the beginning of the page
	Added string // the last added one that is done on this page or an earlier one, "" for none
}

// Page returns at most size items: those of a page of ECS behind the cursor, with the added ones. Added ones
// that come after ECS's last item are shown only if isLast: no page follows. It returns the cursor behind
// the last item, and whether more of this page is left.
func (l List) Page(items []string, from Cursor, size int, isLast bool) (shown []string, at Cursor, isCut bool) {
	shown, at = []string{}, from
	added := slices.DeleteFunc(slices.Clone(l.Added), func(item string) bool {
		return from.Added != "" && l.order(item, from.Added) <= 0 || slices.Contains(items, item)
	})
	for n := l.begin(items, from); ; {
		atEnd := n == len(items)
		switch isNext := len(added) > 0 && (atEnd && isLast ||
			!atEnd && l.Compare != nil && l.Compare(added[0], items[n]) < 0); {
		case atEnd && !isNext:
			return shown, at, false
		case !isNext && l.isLeftOut(items[n], from):
			at.Item = items[n]
			n++
		case len(shown) == size:
			return shown, at, true
		case isNext:
			shown, at.Added, added = append(shown, added[0]), added[0], added[1:]
		default:
			shown, at.Item = append(shown, items[n]), items[n]
			n++
		}
	}
}

func (l List) order(a, b string) int {
	if l.Compare == nil {
		return strings.Compare(a, b)
	}
	return l.Compare(a, b)
}

// isLeftOut reports whether an item of ECS is not shown. One that was added before has become ECS's own
// since.
func (l List) isLeftOut(item string, from Cursor) bool {
	return l.IsHidden != nil && l.IsHidden(item) || item == from.Added
}

// begin returns where a page continues. If the cursor's item no longer exists, that is where it would
// have been.
func (l List) begin(items []string, from Cursor) int {
	n := slices.Index(items, from.Item) + 1
	if from.Item == "" || n > 0 || l.Compare == nil {
		return n
	}
	n = slices.IndexFunc(items, func(item string) bool { return l.Compare(item, from.Item) > 0 })
	if n < 0 {
		return len(items)
	}
	return n
}
