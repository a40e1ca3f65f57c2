package tally

import (
	"iter"
	"slices"
)

// A Counts has a count for each of some integers, which must not be negative. Those without a count
// have 0. The zero value has none. It is an open hash table with linear probing.
type Counts struct {
	slots []slot // at most three quarters taken
	taken int
}

// A slot is empty if its count is 0.
type slot struct{ key, count int32 }

// homeSlot returns the slot where the search for a key begins.
func (c *Counts) homeSlot(key int32) int {
	return int(uint64(uint32(key)*0x9e3779b1) * uint64(len(c.slots)) >> 32)
}

// find returns the slot of the key, or the empty slot where it belongs. There must be an empty one.
func (c *Counts) find(key int32) int {
	for i := c.homeSlot(key); ; {
		if s := &c.slots[i]; s.count == 0 || s.key == key {
			return i
		}
		if i++; i == len(c.slots) {
			i = 0
		}
	}
}

// Of returns the count of the key.
func (c *Counts) Of(key int32) int32 {
	if c.taken == 0 {
		return 0
	}
	return c.slots[c.find(key)].count
}

// Len returns how many keys have a count.
func (c *Counts) Len() int { return c.taken }

// Add adds n, which may be negative, to the count of the key, and returns the new count.
func (c *Counts) Add(key, n int32) int32 {
	if n == 0 {
		return c.Of(key)
	}
	if len(c.slots) == 0 {
		c.slots = make([]slot, 4)
	}
	at := c.find(key)
	s := &c.slots[at]
	switch was := s.count; {
	case was == 0 && 4*(c.taken+1) > 3*len(c.slots):
		c.grow()
		c.slots[c.find(key)] = slot{key, n}
		c.taken++
		return n
	case was == 0:
		*s = slot{key, n}
		c.taken++
		return n
	case was+n == 0:
		c.removeAt(at)
		return 0
	}
	s.count += n
	return s.count
}

// Set sets the count of the key.
func (c *Counts) Set(key, n int32) { c.Add(key, n-c.Of(key)) }

// grow makes the table larger by half: there are as many tables as services.
func (c *Counts) grow() {
	old := c.slots
	c.slots = make([]slot, len(old)+len(old)/2)
	for _, s := range old {
		if s.count != 0 {
			c.slots[c.find(s.key)] = s
		}
	}
}

// removeAt empties a slot. Keys behind it that the gap would make unreachable move up.
func (c *Counts) removeAt(gap int) {
	c.taken--
	n := len(c.slots)
	for i := gap; ; {
		if i++; i == n {
			i = 0
		}
		s := c.slots[i]
		if s.count == 0 {
			break
		}
		if home := c.homeSlot(s.key); (i-home+n)%n >= (i-gap+n)%n {
			c.slots[gap] = s
			gap = i
		}
	}
	c.slots[gap] = slot{}
}

// All iterates over the keys that have a count. The order depends on nothing but the changes so
// far. No count may change meanwhile.
func (c *Counts) All() iter.Seq2[int32, int32] {
	return func(yield func(int32, int32) bool) {
		for _, s := range c.slots {
			if s.count != 0 && !yield(s.key, s.count) {
				return
			}
		}
	}
}

// Clone returns a copy.
func (c *Counts) Clone() Counts { return Counts{slices.Clone(c.slots), c.taken} }

// Size returns how many bytes the counts take.
func (c *Counts) Size() int { return 8 * len(c.slots) }
