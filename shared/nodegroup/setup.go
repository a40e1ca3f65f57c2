package nodegroup

import "berth/shared/cluster"

// setUp notes what the update is to come back to, makes the launch template version, and has the group use it (N1).
func (w *work) setUp() {
	if w.Original == nil {
		w.note()
	}
	w.noteGrowth()
	if w.Target.Image == "" {
		return // its launch template has yet to be read
	}
	if t := Template(w.Update, w.group); w.Template == "" && t != "" {
		w.adopt(t)
	}
	if w.Template == "" || w.group.Template != w.Template {
		return
	}
	switch {
	case len(w.old()) == 0:
		w.Surge = w.leftOver()
		w.enter(cluster.PhaseScaleDown)
	case w.Config.Strategy == cluster.UpdateMinimal:
		w.beginUpgrade()
	default:
		w.enter(cluster.PhaseScaleUp)
	}
}

// Template is the launch template version that an update's nodes are made from; empty where there is none yet. Who has connected
// nodes of it labelled before the update looks at them leaves none behind.
func Template(u *cluster.Update, g Group) string {
	switch {
	case u.Template != "" || u.Phase != cluster.PhaseSetup || u.Target.Image == "":
		return u.Template
	case u.Previous != "" && u.Previous == g.Template:
		return u.Previous
	}
	return g.Made
}

// adopt notes the launch template version. Where an earlier update has failed there may be nodes made from it already, some
// of them never connected: those are old unless they have the labels. What only lacks labels is given them.
func (w *work) adopt(template string) {
	w.Template = template
	for i := range w.members {
		if m := &w.members[i]; m.Template == template && !m.connected() {
			w.Unready = append(w.Unready, m.ID)
		}
	}
}

// note takes down the group as it is, less what an earlier update has left of its surplus.
func (w *work) note() {
	original, zones := w.group.Sizes, map[string]int{}
	if w.Before != nil && w.Left.Max == original.Max {
		original.Max = w.Before.Max
		if w.Left.Desired == original.Desired {
			original.Desired = w.Before.Desired
			if w.Zones != nil {
				zones = w.Zones // those that the earlier one was to come back to
			}
		}
		original.Desired = min(original.Desired, original.Max)
	}
	noted := len(zones) > 0
	w.Maxima = []int{w.group.Max}
	w.Original, w.OriginalTemplate, w.Zones = &original, w.group.Template, zones
	for _, i := range w.members {
		if i.Lifecycle != Terminating && !noted {
			w.Zones[i.Zone]++
		}
		w.ByDomain = w.ByDomain || i.Row != nil && i.Row.Attributes[cluster.AttributeUpgrade] != ""
	}
	w.MaxUnavailable = parallel(w.Config, original.Desired)
	w.Surge = w.leftOver()
	if w.Config.Strategy != cluster.UpdateMinimal {
		w.Surge = max(w.Surge, 2*len(w.group.Zones), w.MaxUnavailable)
	}
}

// noteGrowth counts what others have added since the last look while the update has yet to enlarge the group: it would be taken for
// surplus.
func (w *work) noteGrowth() {
	if w.SeenDesired > 0 {
		w.Added += max(0, w.group.Desired-w.SeenDesired)
	}
	w.SeenDesired = w.group.Desired
}

// leftOver is how many nodes more than there are to be the group has before the update has added any.
func (w *work) leftOver() int { return max(0, w.group.Desired-w.Original.Desired) }

func (w *work) actSetUp() []Action {
	switch {
	case w.Target.Image == "":
		return nil
	case w.Template == "":
		return []Action{{Kind: CreateTemplate}}
	}
	return []Action{{Kind: UseTemplate, Template: w.Template}}
}
