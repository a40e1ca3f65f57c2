package nodegroup

import (
	"cmp"
	"maps"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// Request is what an update is requested with.
type Request struct {
	ID     string // of the update: a UUID
	Target cluster.UpdateTarget
	Force  bool
	// ForceProtected lets Force stop protected tasks, too.
	ForceProtected bool
	Seed           uint64 // decides in which order nodes are replaced
	// Timeouts has how long to wait. A zero one gets its default:
	//
	//	Launch     15 minutes for nodes to become Ready (N2)
	//	Drain      15 minutes for tasks to leave a node (N4)
	//	Stop        5 minutes for tasks that were stopped by force
	//	Cordon     60 seconds between the last task and the termination (N4)
	//	Terminate  65 minutes for a termination: a lifecycle hook may delay it by an hour
	//	Domain      none after an upgrade domain
	//	Health     10 minutes more for what is unhealthy after an upgrade domain
	Waits cluster.UpdateTimeouts
}

// maxUnavailableLimit is EKS's limit of nodes that are updated at once.
const maxUnavailableLimit = 100

// StartUpdate makes the row of a new update of a node group (N1). Last is the update before it, or
// nil: the new update also removes the surplus that the last one left.
//
// It fails with ResourceInUseException while the last update is in progress, and with
// InvalidParameterException if [ValidateConfig] refuses the group's configuration or the target has
// no image. A launch template of the user's own, or an AMI type, will do for an image:
// [ResolveTarget] reads it later.
func StartUpdate(g *cluster.NodeGroup, r Request, last *cluster.Update, now time.Time) (*cluster.Update, error) {
	if last != nil && !last.HasEnded() {
		return nil, cluster.Errorf(cluster.CodeResourceInUse,
			"Nodegroup %s cannot be updated as it is currently not in Active State", g.Name)
	}
	if r.Target.Image == "" && r.Target.SourceTemplate == "" && r.Target.AMIType == "" {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "The update names no image")
	}
	if err := ValidateConfig(g.Config); err != nil {
		return nil, err
	}
	u := &cluster.Update{
		Head: cluster.Head{Cluster: g.Cluster, Rev: 1}, NodeGroup: g.Name, ID: r.ID,
		Status: cluster.UpdateInProgress, Type: cluster.UpdateVersion, Params: updateParams(r.Target), CreatedAt: now,
		UpdateSpec: cluster.UpdateSpec{
			Target: r.Target, Config: g.Config, Force: r.Force, ForceProtected: r.ForceProtected,
			Seed: r.Seed, Timeouts: withDefaults(r.Waits),
		},
		UpdateProgress: cluster.UpdateProgress{Phase: cluster.PhaseSetup},
	}
	if before, left := unrestoredSizes(last); before != left {
		u.UnrestoredSizes, u.LeftSizes, u.LeftScaleOuts = &before, &left, last.FinalScaleOuts
		if before.Desired != left.Desired {
			u.Zones = maps.Clone(last.Zones)
		}
	}
	if last != nil && last.Target == r.Target {
		u.PreviousTemplate = last.Template
	}
	return u, nil
}

// unrestoredSizes returns the sizes that an update should have restored, and those that it left.
// The former take account of what somebody else has set since. An update that never recorded its
// original sizes has neither.
func unrestoredSizes(u *cluster.Update) (before, left cluster.Sizes) {
	if u == nil || u.OriginalSizes == nil || u.FinalSizes == nil {
		return before, left
	}
	before, left = *u.OriginalSizes, *u.FinalSizes
	before.Min, before.Desired = left.Min, max(before.Desired, left.Min)
	if u.DesiredFloor != nil {
		before.Desired = max(before.Desired, *u.DesiredFloor)
	}
	if u.UserMax != nil {
		before.Max = min(*u.UserMax, left.Max)
	}
	return before, left
}

// ResolveTarget gives an update the target that was read from its launch template, including the
// image. That happens when the update is first looked at, because the API that creates it reads no
// templates (N1). An update that has its image, or has ended, stays as it is.
func ResolveTarget(u *cluster.Update, t cluster.UpdateTarget) *cluster.Update {
	if u.Target.Image != "" || u.HasEnded() {
		return u
	}
	next := cloneUpdate(u)
	next.Target, next.Params = t, updateParams(t)
	return next
}

// TargetFromTemplate completes a target with a launch template version of the user's own. The image
// comes either from the template or from the releaseVersion (EKS user guide, custom launch
// templates). If neither has one, it fails with InvalidParameterException; if both do, with
// InvalidRequestException.
func TargetFromTemplate(t cluster.UpdateTarget, lt *cluster.LaunchTemplate) (cluster.UpdateTarget, error) {
	switch {
	case lt.Image == "" && t.ReleaseVersion == "":
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"Version %d of launch template %s names no image, and the request no releaseVersion", lt.Version, lt.ID)
	case lt.Image != "" && (t.ReleaseVersion != "" || t.Version != ""):
		return t, cluster.Errorf(cluster.CodeInvalidRequest,
			"You cannot specify version or releaseVersion: the launch template names an image")
	}
	t.Image = cmp.Or(lt.Image, t.ReleaseVersion)
	t.SourceTemplate, t.SourceName, t.SourceVersion = lt.ID, lt.Name, strconv.FormatInt(lt.Version, 10)
	return t, nil
}

// SourceTemplate names the launch template version that a target is made from, by its id if that is
// known.
func SourceTemplate(t cluster.UpdateTarget) cluster.TemplateRef {
	ref := cluster.TemplateRef{ID: t.SourceTemplate, Version: t.SourceVersion}
	if ref.ID == "" {
		ref.Name = t.SourceName
	}
	return ref
}

// ValidateConfig fails with InvalidParameterException for an update configuration that has both
// maxUnavailable and maxUnavailablePercentage, one that is not from 1 to 100, or an unknown
// strategy (N1).
func ValidateConfig(c cluster.UpdateConfig) error {
	for _, n := range []int{c.MaxUnavailable, c.MaxUnavailablePercentage} {
		if n < 0 || n > maxUnavailableLimit {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"maxUnavailable and maxUnavailablePercentage are from 1 to %d, not %d", maxUnavailableLimit, n)
		}
	}
	if c.MaxUnavailable > 0 && c.MaxUnavailablePercentage > 0 {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Only one of maxUnavailable and maxUnavailablePercentage may be given")
	}
	switch c.Strategy {
	case "", cluster.UpdateDefault, cluster.UpdateMinimal:
		return nil
	}
	return cluster.Errorf(cluster.CodeInvalidParameter, "updateStrategy is DEFAULT or MINIMAL, not %q", c.Strategy)
}

// updateParams returns the parameters of a version update as DescribeUpdate shows them.
func updateParams(t cluster.UpdateTarget) (params []cluster.UpdateParam) {
	for _, p := range []cluster.UpdateParam{
		{Type: "Version", Value: t.Version}, {Type: "ReleaseVersion", Value: t.ReleaseVersion},
		{Type: "LaunchTemplateName", Value: t.SourceName}, {Type: "LaunchTemplateVersion", Value: t.SourceVersion},
	} {
		if p.Value != "" {
			params = append(params, p)
		}
	}
	return params
}

func withDefaults(w cluster.UpdateTimeouts) cluster.UpdateTimeouts {
	return cluster.UpdateTimeouts{
		Launch: cmp.Or(w.Launch, 15*time.Minute), Drain: cmp.Or(w.Drain, 15*time.Minute),
		Stop:   cmp.Or(w.Stop, 5*time.Minute),
		Cordon: cmp.Or(w.Cordon, time.Minute), Terminate: cmp.Or(w.Terminate, 65*time.Minute),
		Domain: w.Domain, Health: cmp.Or(w.Health, 10*time.Minute),
	}
}

// maxUnavailable returns how many of n nodes may be out of service at once. A percentage is rounded
// down, to at least 1: 33 % of 10 nodes are 3, and 5 % of 10 nodes are 1.
func maxUnavailable(c cluster.UpdateConfig, n int) int {
	most := cmp.Or(c.MaxUnavailable, n*c.MaxUnavailablePercentage/100)
	return min(max(most, 1), maxUnavailableLimit)
}

// TemplateDescription returns the description of the launch template version that an update makes.
//
// It is the same for the same target, made from the same version, which is given as ID:NUMBER: the
// one that the group launched when the update began. So an update that is repeated finds the
// version of the one that failed, and no update finds a version that lacks what its user has
// changed since.
func TemplateDescription(u *cluster.Update, from string) string {
	t := u.Target
	if t.SourceTemplate != "" && !JoinsByBerth(t) {
		from = "" // the version is made from that template alone
	}
	return "berth/" + u.NodeGroup + "/" + cluster.Digest(t.Image, t.SourceTemplate, t.SourceVersion, from)
}
