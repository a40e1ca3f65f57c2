package placement

// instanceClasses tell instances apart by which static masks they pass. Where a mask leaves out many
// instances, these would stand in the way of a search: they often have the most room, as the tasks
// with that mask cannot use it. So regions differ by class, and a search passes over those whose
// class the mask rules out.
type instanceClasses struct {
	of       []uint64 // per instance, a bit for each mask that it passes; see [staticMask.classBit]
	used     uint64   // bits that some mask has
	revision int      // changes with the meaning of the bits
}

const (
	// anyClass has the bits of all masks.
	anyClass = ^uint64(0)
	// maxClasses is the most classes to which a new mask may lead. A search compares the first
	// instances of all regions, and there are up to as many regions as classes in each zone.
	maxClasses = 16
	// excludedShare is the least part (1 in excludedShare) of the instances that a mask must leave out
	// to get a bit.
	excludedShare = 8
)

// addMask gives the mask a bit if that is of use.
func (c *instanceClasses) addMask(m *staticMask) {
	bit := (c.used + 1) &^ c.used
	if bit == 0 { // all are taken
		return
	}
	classes, excluded := map[uint64]bool{}, 0
	for i, passes := range m.passes {
		class := c.of[i]
		if passes {
			class |= bit
		} else {
			excluded++
		}
		if classes[class] = true; len(classes) > maxClasses {
			return
		}
	}
	if excluded*excludedShare < len(m.passes) {
		return
	}
	m.classBit, c.used = bit, c.used|bit
	for i := range m.passes {
		c.updateInstance(m, i)
	}
	c.revision++
}

// updateInstance sets the class of an instance by whether it passes the mask.
func (c *instanceClasses) updateInstance(m *staticMask, i int) {
	if m.passes[i] {
		c.of[i] |= m.classBit
	} else {
		c.of[i] &^= m.classBit
	}
}

// keepMasks takes the bits of all other masks back.
func (c *instanceClasses) keepMasks(masks map[string]*staticMask) {
	kept := uint64(0)
	for _, m := range masks {
		kept |= m.classBit
	}
	if kept == c.used {
		return
	}
	for i := range c.of {
		c.of[i] &= kept
	}
	c.used = kept
	c.revision++
}
