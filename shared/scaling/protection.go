package scaling

import "slices"

// protectionPlan is which instances must be protected from scale-in, and which no longer (C6).
type protectionPlan struct {
	protect, release                 []string // EC2 instances
	markReleasable, unmarkReleasable []string // container instances
	// protecting reports that some instances may be protected that must be released when protection
	// ends.
	protecting bool
	reasons    reasons
}

// planProtection protects instances before their first task that is not a daemon's starts, and
// releases them when none is left (C6). Instances in their warm-up stay as they were launched,
// because tasks are about to come.
//
// A release takes two decisions. The first one marks the container instance as one that the group
// may terminate. The next one releases it if it still has no tasks. So a task that is placed there
// in between finds the mark, and dispatch protects the instance first.
func planProtection(v *view) protectionPlan {
	if !v.Provider.Protection {
		return endProtection(v)
	}
	p := protectionPlan{protecting: true, reasons: reasons{}}
	for _, m := range v.instances {
		switch {
		case !m.IsInService(): // Auto Scaling refuses to change it
		case len(m.load) > 0 && !m.Protected:
			p.protect = append(p.protect, m.ID)
		case !m.isEmpty() || m.isWarming && m.Protected:
		case !v.isMarkedReleasable(m):
			p.markReleasable = append(p.markReleasable, m.node.ID)
			p.reasons[m.ID] = "its scale-in protection is about to end"
		case m.Protected:
			p.release = append(p.release, m.ID)
		}
	}
	return p
}

// endProtection releases all instances once, when protection is turned off. Instances that others
// protect later stay protected.
func endProtection(v *view) (p protectionPlan) {
	for _, m := range v.instances {
		if m.node != nil && m.node.ReleasedIn != "" {
			p.unmarkReleasable = append(p.unmarkReleasable, m.node.ID)
		}
		if v.History.Protecting && m.IsInService() && m.Protected {
			p.release = append(p.release, m.ID)
			p.protecting = true // until they are no longer protected
		}
	}
	return p
}

// isMarkedReleasable reports whether the row says that the group may terminate the instance. An
// instance that has not registered gets no task, so it needs no mark.
func (v *view) isMarkedReleasable(m *instance) bool {
	return m.node == nil || m.node.ReleasedIn == v.Group.Name
}

// isTakeable reports whether the group may terminate the instance in a scale-in without ending a
// task: it is empty, and it is not protected or this decision releases it.
func (v *view) isTakeable(m *instance) bool {
	switch {
	case !m.IsInService() || !m.isEmpty():
		return false
	case !v.Provider.Protection:
		return !m.Protected
	}
	return v.isMarkedReleasable(m) && (!m.Protected || !m.isWarming)
}

// hasUnmarkedReleasable reports whether the group could terminate an instance that is not marked.
func (v *view) hasUnmarkedReleasable() bool {
	return v.Provider.Protection && slices.ContainsFunc(v.instances, func(m *instance) bool {
		return m.IsInService() && !m.Protected && !v.isMarkedReleasable(m) && len(m.load) == 0
	})
}
