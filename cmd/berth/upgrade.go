package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// upgradeCommand updates the nodes of a node group and follows the update. It starts the update
// through the EKS API, so Berth carries it out whether or not the command keeps running. A dry run
// asks Berth for the update that it would create, and rehearses it here on the cluster's rows.
type upgradeCommand struct {
	clusterFlags
	NodeGroup             string        `arg:"" name:"nodegroup" help:"Name of the node group."`
	ReleaseVersion        string        `help:"Image (AMI) that the nodes should have." placeholder:"AMI"`
	LaunchTemplateVersion string        `help:"Version of the template: N, $$Latest, $$Default." placeholder:"VERSION"`
	MaxUnavailable        string        `help:"Nodes out of service at once: 1 to 100, or such as 20%." placeholder:"N"`
	Strategy              string        `help:"DEFAULT adds nodes first, MINIMAL removes first." placeholder:"NAME"`
	Force                 bool          `help:"Stop tasks that are on their node after 15 minutes, instead of failing."`
	ForceProtected        bool          `help:"With --force, also stop protected tasks."`
	DryRun                bool          `help:"Show what the update would do, and change nothing."`
	NoWait                bool          `help:"Start the update and return."`
	Every                 time.Duration `default:"5s" help:"Time between two reports."`
	JSON                  bool          `help:"Print JSON: one object per line, each time that something has changed."`

	config cluster.UpdateConfig
}

// updateConfig is the update configuration of the EKS API.
type updateConfig struct {
	MaxUnavailable           int    `json:"maxUnavailable,omitempty"`
	MaxUnavailablePercentage int    `json:"maxUnavailablePercentage,omitempty"`
	UpdateStrategy           string `json:"updateStrategy,omitempty"`
}

var (
	nodeGroupNames   = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$`)
	templateVersions = regexp.MustCompile(`^([1-9][0-9]{0,17}|\$Latest|\$Default)$`)
)

// maxUnavailableLimit is EKS's limit for the nodes out of service at once, and for the percentage.
const maxUnavailableLimit = 100

// Validate reads the flags, and names the one that is wrong.
func (u *upgradeCommand) Validate() error {
	switch {
	case u.NodeGroup != "" && !nodeGroupNames.MatchString(u.NodeGroup):
		return fmt.Errorf("the node group is %q, expected 1 to 63 letters, digits, hyphens and underscores",
			u.NodeGroup)
	case u.ReleaseVersion != "" && u.LaunchTemplateVersion != "":
		return fmt.Errorf("--launch-template-version is %q, expected none beside --release-version: "+
			"the template names the image", u.LaunchTemplateVersion)
	case u.LaunchTemplateVersion != "" && !templateVersions.MatchString(u.LaunchTemplateVersion):
		return fmt.Errorf("--launch-template-version is %q, expected a number, $Latest or $Default",
			u.LaunchTemplateVersion)
	case u.ForceProtected && !u.Force:
		return errors.New("--force-protected is given, expected only with --force")
	case u.DryRun && u.NoWait:
		return errors.New("--no-wait is given, expected none beside --dry-run")
	case u.Every < 10*time.Millisecond:
		return fmt.Errorf("--every is %s, expected a time such as 5s", u.Every)
	}
	if err := u.parseUpdateConfig(); err != nil {
		return err
	}
	return u.clusterFlags.Validate()
}

// parseUpdateConfig reads the flags that change the node group's update configuration.
func (u *upgradeCommand) parseUpdateConfig() error {
	u.config.Strategy = cluster.UpdateStrategy(strings.ToUpper(u.Strategy))
	switch u.config.Strategy {
	case "", cluster.UpdateDefault, cluster.UpdateMinimal:
	default:
		return fmt.Errorf("--strategy is %q, expected DEFAULT or MINIMAL%s", u.Strategy,
			choice.DidYouMean(u.Strategy, []string{"DEFAULT", "MINIMAL"}))
	}
	if u.MaxUnavailable == "" {
		return nil
	}
	// As in EKS, the limit is a number of nodes or a percentage, never both.
	number, percent := strings.CutSuffix(u.MaxUnavailable, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxUnavailableLimit {
		return fmt.Errorf("--max-unavailable is %q, expected 1 to %d, or 1%% to %d%%", u.MaxUnavailable,
			maxUnavailableLimit, maxUnavailableLimit)
	}
	if percent {
		u.config.MaxUnavailablePercentage = n
	} else {
		u.config.MaxUnavailable = n
	}
	return nil
}

// requestsUpdate reports whether a flag describes an update, so that following another one is
// wrong.
func (u *upgradeCommand) requestsUpdate() bool {
	return u.ReleaseVersion != "" || u.LaunchTemplateVersion != "" || u.config != (cluster.UpdateConfig{}) || u.Force
}

// errWouldFail ends the program with an exit code of its own. The answer has said why.
var errWouldFail = errors.New("the update would fail as things stand")

// Run starts an update, or finds the one in progress, and follows it. Flags that describe an update
// are refused while another one is in progress: EKS allows one at a time.
func (u *upgradeCommand) Run(ctx context.Context, s *streams) error {
	c, err := u.newClient(ctx)
	if err != nil {
		return err
	}
	capacity, err := whatif.ReadCapacity(ctx, c, u.Cluster)
	if err != nil {
		return err
	}
	g, _, err := capacity.FindNodeGroup(u.NodeGroup)
	if err != nil {
		return err
	}
	id := ""
	switch last := capacity.Updates[g.Name]; {
	// To follow a different update than the one that was asked for would mislead.
	case last != nil && !last.HasEnded() && (u.requestsUpdate() || u.DryRun):
		return fmt.Errorf("update %s of node group %s%s is in progress; `berth upgrade %s` without flags follows it",
			last.ID, g.Name, whatif.DescribeTarget(last), g.Name)
	case last != nil && !last.HasEnded():
		id = last.ID
	case u.ReleaseVersion == "" && u.LaunchTemplateVersion == "":
		return fmt.Errorf("no update of node group %s is in progress; to start one, give --release-version "+
			"or --launch-template-version", g.Name)
	case u.DryRun:
		return u.printPlan(ctx, s, c, capacity)
	default:
		if id, err = u.startUpdate(ctx, c, g); err != nil {
			return err
		}
	}
	f := &follower{command: u, client: c, streams: s, id: id}
	if u.NoWait {
		return f.printStarted()
	}
	return f.followUpdate(ctx)
}

// updateRequestBody is the body of UpdateNodegroupVersion. Its token stays the same until the next
// update. That makes a dry run show the order in which the update then replaces the nodes, and a
// repeated call starts no second update.
func (u *upgradeCommand) updateRequestBody(g *cluster.NodeGroup) (map[string]any, error) {
	body := map[string]any{
		"clientRequestToken": cluster.Digest("berth upgrade", g.ID, g.Update, u.ReleaseVersion, u.LaunchTemplateVersion,
			fmt.Sprint(u.Force, u.ForceProtected)),
	}
	if u.Force {
		body["force"] = true
	}
	if u.ForceProtected {
		body["forceProtected"] = true
	}
	if u.ReleaseVersion != "" {
		body["releaseVersion"] = u.ReleaseVersion
	}
	if u.LaunchTemplateVersion != "" {
		if g.Target.SourceTemplate == "" {
			return nil, fmt.Errorf("--launch-template-version is %q, but node group %s was created without a launch "+
				"template of its own, expected --release-version", u.LaunchTemplateVersion, g.Name)
		}
		body["launchTemplate"] = map[string]string{"id": g.Target.SourceTemplate, "version": u.LaunchTemplateVersion}
	}
	return body, nil
}

// printPlan prints what the update would do.
func (u *upgradeCommand) printPlan(ctx context.Context, s *streams, c *client.Client, capacity *whatif.Capacity) error {
	body, err := u.updateRequestBody(capacity.NodeGroups[u.NodeGroup])
	if err != nil {
		return err
	}
	body["cluster"], body["nodegroupName"] = u.Cluster, u.NodeGroup
	var out berthapi.PlanOutput
	if err := c.CallBerth(ctx, "PlanNodegroupUpdate", body, &out); err != nil {
		return err
	}
	row, err := state.DecodeRow(out.Update.Sort, out.Update.Row)
	if err != nil {
		return err
	}
	update, ok := row.(*cluster.Update)
	if !ok {
		return fmt.Errorf("PlanNodegroupUpdate: %q is not an update", out.Update.Sort)
	}
	// The flags change the node group's configuration first, so the plan must assume that they
	// have.
	update.Config = update.Config.MergedWith(u.config)
	answer, err := u.foreseeUpdate(ctx, s, c, capacity, update)
	if err != nil {
		return err
	}
	if err := printAnswer(s.out, u.JSON, answer); err != nil || answer.WouldSucceed() {
		return err
	}
	// The answer has been printed; the error only sets the exit code.
	return errWouldFail
}

// foreseeUpdate finds out what an update that has not started would do. It reads the launch
// template itself, as Berth does once the update has started.
func (u *upgradeCommand) foreseeUpdate(
	ctx context.Context, s *streams, c *client.Client, capacity *whatif.Capacity, update *cluster.Update,
) (*whatif.UpgradeAnswer, error) {
	// A launch template or a public parameter names the image. Berth's API reads neither, so the
	// plan has none yet.
	if update.Target.Image == "" {
		target, err := resolveTarget(ctx, c, update.Target)
		var why *cluster.Error
		switch {
		case errors.As(err, &why) && isUnusableTemplate(why.Code):
			return whatif.RefusedUpgrade(capacity, update, why), nil
		case err != nil:
			return nil, err
		}
		update = nodegroup.ResolveTarget(update, target)
	}
	src, err := readLiveCluster(ctx, c, u.Cluster, s)
	if err != nil {
		return nil, err
	}
	return whatif.PlanUpgrade(src.snap, capacity, update, src.readAt)
}

// resolveTarget returns the target with the image that its launch template or its release has.
func resolveTarget(ctx context.Context, c *client.Client, t cluster.UpdateTarget) (cluster.UpdateTarget, error) {
	if t.AMIType != "" {
		values, err := c.Parameters(ctx, nodegroup.ImageParameters(t))
		if err != nil {
			return t, err
		}
		return nodegroup.PublishedTarget(t, values)
	}
	lt, err := c.LaunchTemplate(ctx, nodegroup.SourceTemplate(t))
	if err != nil {
		return t, err
	}
	return nodegroup.TargetFromTemplate(t, lt)
}

// isUnusableTemplate reports whether no caller could use the launch template. Any other code means
// that this user may not read it, or that the call can be repeated.
func isUnusableTemplate(c cluster.Code) bool {
	return strings.HasPrefix(string(c), "InvalidLaunchTemplate") || c == cluster.CodeInvalidParameter ||
		c == cluster.CodeInvalidRequest
}

// startUpdate stores a changed update configuration, starts the update and returns its id.
func (u *upgradeCommand) startUpdate(ctx context.Context, c *client.Client, g *cluster.NodeGroup) (string, error) {
	body, err := u.updateRequestBody(g)
	if err != nil {
		return "", err
	}
	path := "clusters/" + url.PathEscape(u.Cluster) + "/node-groups/" + url.PathEscape(u.NodeGroup) + "/"
	// UpdateNodegroupVersion takes no configuration: a changed one is stored first, and stays.
	if config := g.Config.MergedWith(u.config); config != g.Config {
		in := map[string]any{"updateConfig": updateConfig{config.MaxUnavailable, config.MaxUnavailablePercentage,
			string(config.Strategy)}}
		if err := c.CallEKS(ctx, "UpdateNodegroupConfig", path+"update-config", in, nil); err != nil {
			return "", err
		}
	}
	var out struct {
		Update struct {
			ID string `json:"id"`
		} `json:"update"`
	}
	err = c.CallEKS(ctx, "UpdateNodegroupVersion", path+"update-version", body, &out)
	return out.Update.ID, err
}
