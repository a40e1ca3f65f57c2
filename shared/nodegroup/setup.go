package nodegroup

import (
	"berth/shared/cluster"
)

// setupPhase records the group as it is, has the launch template version made, and lets the group
// use it (N1).
type setupPhase struct{}

func (setupPhase) advance(u *cluster.Update, v *view) transition {
	if u.OriginalSizes == nil {
		recordBaseline(u, v)
	}
	recordGrowth(u, v.group.Desired)
	if t := LaunchTemplateOf(u, v.group); u.Template == "" && t != "" {
		u.Template = t
		u.InitiallyUnready = append(u.InitiallyUnready, unconnectedFrom(t, v.nodes)...)
		return noTransition // which nodes are old is known from here on
	}
	switch {
	// its launch template is yet to be read, made or used
	case u.Template == "" || v.group.Template != u.Template:
		return noTransition
	case len(v.old) == 0:
		u.Surge = leftoverSurplus(u, v)
		return enterOnly(cluster.PhaseScaleDown)
	case u.Config.Strategy == cluster.UpdateMinimal:
		return enterOnly(cluster.PhaseUpgrade)
	}
	return enterOnly(cluster.PhaseScaleUp)
}

func (setupPhase) actions(u *cluster.Update, _ *view) []Action {
	switch {
	case u.Target.Image == "":
		return nil
	case u.Template == "":
		return []Action{{Kind: CreateTemplate}}
	}
	return []Action{{Kind: UseTemplate, Template: u.Template}}
}

func (setupPhase) waitingFor(*cluster.Update, *view) string { return "the launch template version" }

// LaunchTemplateOf returns the launch template version that the update's nodes are made from; empty
// if there is none yet. Nodes made from it may be labelled before the update next looks at them:
// then it sees none that lacks its labels.
func LaunchTemplateOf(u *cluster.Update, g Group) string {
	switch {
	case u.Template != "" || u.Phase != cluster.PhaseSetup || u.Target.Image == "":
		return u.Template
	case u.PreviousTemplate != "" && u.PreviousTemplate == g.Template:
		return u.PreviousTemplate
	}
	return g.PreparedTemplate
}

// templateActions lets the group launch from the update's launch template version again. A call of
// an earlier change that arrived late may have set another, whose nodes would be replaced forever.
func templateActions(u *cluster.Update, v *view) []Action {
	if u.Template == "" || v.group.Template == u.Template {
		return nil
	}
	return []Action{{Kind: UseTemplate, Template: u.Template}}
}

// unconnectedFrom returns the nodes that were made from the template already and are not connected.
// An earlier update that failed may have left them, so they are old unless they have the labels.
// Connected ones without labels count as new: they will be given the labels.
func unconnectedFrom(template string, nodes []*node) (ids []string) {
	for _, n := range nodes {
		if n.Template == template && !n.isConnected() {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// recordBaseline records the group as it is, less the surplus that an earlier update has left.
func recordBaseline(u *cluster.Update, v *view) {
	original := v.group.Sizes
	var zones map[string]int
	if u.UnrestoredSizes != nil && u.LeftSizes.Max == original.Max {
		original.Max = u.UnrestoredSizes.Max
		if u.LeftSizes.Desired == original.Desired && !hasScaledOutSince(u, v) {
			original.Desired = u.UnrestoredSizes.Desired
			zones = u.Zones // those that the earlier update should have restored
		}
		original.Desired = min(original.Desired, original.Max)
	}
	if len(zones) == 0 {
		zones = v.countByZone()
	}
	u.KnownMaxima = []int{v.group.Max}
	u.OriginalSizes, u.OriginalTemplate, u.Zones = &original, v.group.Template, zones
	for _, n := range v.nodes {
		u.ByDomain = u.ByDomain || n.hasUpgradeDomain()
	}
	u.MaxUnavailable = maxUnavailable(u.Config, original.Desired)
	u.Surge = leftoverSurplus(u, v)
	if u.Config.Strategy != cluster.UpdateMinimal {
		u.Surge = max(u.Surge, 2*len(v.group.Zones), u.MaxUnavailable)
	}
}

// hasScaledOutSince reports whether managed scaling has enlarged the group since the earlier update
// ended. The nodes are managed scaling's then, and no surplus: it may have scaled in as well, and
// come back to the same desired capacity by chance.
func hasScaledOutSince(u *cluster.Update, v *view) bool {
	return u.LeftScaleOuts != nil && v.group.ScaleOuts > *u.LeftScaleOuts
}

// recordGrowth counts the nodes that others add before the update enlarges the group. They are not
// surplus.
func recordGrowth(u *cluster.Update, desired int) {
	if u.ObservedDesired > 0 {
		u.AddedByOthers += max(0, desired-u.ObservedDesired)
	}
	u.ObservedDesired = desired
}

// leftoverSurplus returns how many nodes too many the group has before the update adds any.
func leftoverSurplus(u *cluster.Update, v *view) int {
	return max(0, v.group.Desired-u.OriginalSizes.Desired)
}
