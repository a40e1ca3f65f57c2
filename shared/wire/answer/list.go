package answer

import "slices"

// A List is a list of texts in which Berth shows some otherwise than ECS has them. It keeps ECS's
// order, in which it inserts what it adds.
type List struct {
	Compare func(a, b string) int  // the order of the list
	Hides   func(item string) bool // leaves out an item of ECS; nil leaves out none
	Added   []string               // what ECS does not list, in order
}

// Page returns the first size of what is shown of items, which are those at ECS, with what is added among
// them behind after. All the rest of what is added comes at the end of the list, where isLast is. It also
// returns how many items it went through, and whether there is more to show.
func (l List) Page(items []string, after string, size int, isLast bool) (shown []string, used int, isCut bool) {
	shown = make([]string, 0, len(items))
	added := slices.DeleteFunc(slices.Clone(l.Added), func(item string) bool {
		return after != "" && l.Compare(item, after) <= 0 || slices.Contains(items, item)
	})
	for ; used < len(items) || isLast && len(added) > 0; used++ {
		for len(added) > 0 && (used == len(items) || l.Compare(added[0], items[used]) < 0) {
			if len(shown) == size {
				return shown, used, true
			}
			shown, added = append(shown, added[0]), added[1:]
		}
		if used == len(items) {
			break
		}
		if l.Hides != nil && l.Hides(items[used]) {
			continue
		}
		if len(shown) == size {
			return shown, used, true
		}
		shown = append(shown, items[used])
	}
	return shown, used, false
}
