package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/client"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// upgradeCommand updates the nodes of a node group, and follows the update.
type upgradeCommand struct {
	client.Endpoint
	NodeGroup             string        `arg:"" name:"nodegroup" help:"Name of the node group."`
	Cluster               string        `default:"default" help:"Name of the cluster."`
	ReleaseVersion        string        `help:"The image (AMI) that the nodes are to have." placeholder:"AMI"`
	LaunchTemplateVersion string        `help:"The version of the node group's own launch template: a number, $$Latest or $$Default." placeholder:"VERSION"`
	MaxUnavailable        string        `help:"How many nodes may be out of service at once: 1 to 100, or a share such as 20%. Kept in the node group." placeholder:"N"`
	Strategy              string        `help:"DEFAULT launches new nodes first, MINIMAL takes old ones away first. Kept in the node group." placeholder:"NAME"`
	Force                 bool          `help:"Stop tasks that have not left their node after 15 minutes, instead of failing."`
	ForceProtected        bool          `help:"With --force, stop protected tasks, too."`
	DryRun                bool          `help:"Say what the update would do, and change nothing."`
	NoWait                bool          `help:"Begin the update and return."`
	Every                 time.Duration `default:"5s" help:"How often to look how far it is."`
	JSON                  bool          `help:"As JSON: one object a line, each time that something has changed."`

	config cluster.UpdateConfig
}

// updateConfig is the EKS API's.
type updateConfig struct {
	MaxUnavailable           int    `json:"maxUnavailable,omitempty"`
	MaxUnavailablePercentage int    `json:"maxUnavailablePercentage,omitempty"`
	UpdateStrategy           string `json:"updateStrategy,omitempty"`
}

// Help is the end of `berth upgrade --help`.
func (u *upgradeCommand) Help() string {
	return `Replaces the nodes of a node group by new ones, as UpdateNodegroupVersion of the EKS API does, and says node by node how far it
is and what it waits for. Without flags it follows the update that is in progress, and begins none.

Ctrl-C ends only the following: the update goes on. Exit code: 0 when it is Successful, 1 when it has Failed (each error is
printed with its code and resources) or cannot begin, 2 for bad flags, 130 for Ctrl-C. With --dry-run 0 when nothing is foreseen
that would have it fail, else 3.

JSON: id, nodegroup, status, phase, waiting, desiredCapacity, old, replaced, nodes [instanceId, availabilityZone, lifecycleState, old,
step, since], errors [errorCode, errorMessage, resourceIds]. With --dry-run: nodegroup, autoScalingGroup, params [type, value],
strategy, maxUnavailable, surge, sizes, nodes [instanceId, instance, availabilityZone, upgradeDomain, turn, tasks, stays], noRoom
[turn, why], upToDate, refused.

Examples:
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --dry-run
  berth upgrade workers --release-version ami-0b9d6f2f5c1e4a7d9 --max-unavailable 20%
  berth upgrade workers --launch-template-version 7 --force
  berth upgrade workers                                       follow the update in progress`
}

var (
	nodeGroupNames   = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,62}$`)
	templateVersions = regexp.MustCompile(`^([1-9][0-9]{0,17}|\$Latest|\$Default)$`)
)

// maxUnavailableMost is EKS's limit of nodes out of service at once, and of the percentage.
const maxUnavailableMost = 100

// Validate reads the flags, and names the one that is wrong.
func (u *upgradeCommand) Validate() error {
	switch {
	case !clusterNames.MatchString(u.Cluster):
		return fmt.Errorf("--cluster is %q, expected 1 to 255 letters, digits, hyphens and underscores", u.Cluster)
	case u.NodeGroup != "" && !nodeGroupNames.MatchString(u.NodeGroup):
		return fmt.Errorf("the node group is %q, expected 1 to 63 letters, digits, hyphens and underscores",
			u.NodeGroup)
	case u.ReleaseVersion != "" && u.LaunchTemplateVersion != "":
		return fmt.Errorf("--launch-template-version is %q, expected none beside --release-version: the template names the image", u.LaunchTemplateVersion)
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
	return u.parseConfig()
}

// parseConfig reads what the node group's update configuration is to be.
func (u *upgradeCommand) parseConfig() error {
	u.config.Strategy = cluster.UpdateStrategy(strings.ToUpper(u.Strategy))
	switch u.config.Strategy {
	case "", cluster.UpdateDefault, cluster.UpdateMinimal:
	default:
		return fmt.Errorf("--strategy is %q, expected DEFAULT or MINIMAL", u.Strategy)
	}
	if u.MaxUnavailable == "" {
		return nil
	}
	number, percent := strings.CutSuffix(u.MaxUnavailable, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxUnavailableMost {
		return fmt.Errorf("--max-unavailable is %q, expected 1 to %d, or 1%% to %d%%", u.MaxUnavailable,
			maxUnavailableMost, maxUnavailableMost)
	}
	if percent {
		u.config.MaxUnavailablePercentage = n
	} else {
		u.config.MaxUnavailable = n
	}
	return nil
}

// requestsUpdate reports whether a flag says what the update is to be like.
func (u *upgradeCommand) requestsUpdate() bool {
	return u.ReleaseVersion != "" || u.LaunchTemplateVersion != "" || u.config != (cluster.UpdateConfig{}) || u.Force
}

// errUnready ends the program with a code of its own; the answer has said all.
var errUnready = errors.New("the update would fail as things stand")

// Run begins an update, or finds the one in progress, and follows it.
func (u *upgradeCommand) Run(ctx context.Context, s *streams) error {
	c, err := client.New(ctx, u.Endpoint)
	if err != nil {
		return err
	}
	k, err := whatif.ReadCapacity(ctx, c, u.Cluster)
	if err != nil {
		return err
	}
	g, _, err := k.FindNodeGroup(u.NodeGroup)
	if err != nil {
		return err
	}
	id := ""
	switch last := k.Updates[g.Name]; {
	case last != nil && !last.HasEnded() && (u.requestsUpdate() || u.DryRun):
		return fmt.Errorf("update %s of node group %s%s is in progress; `berth upgrade %s` without flags follows it",
			last.ID, g.Name, whatif.DescribeTarget(last), g.Name)
	case last != nil && !last.HasEnded():
		id = last.ID
	case u.ReleaseVersion == "" && u.LaunchTemplateVersion == "":
		return fmt.Errorf("no update of node group %s is in progress; to begin one, name its --release-version or --launch-template-version", g.Name)
	case u.DryRun:
		return u.printPlan(ctx, s, c, k)
	default:
		if id, err = u.beginUpdate(ctx, c, g); err != nil {
			return err
		}
	}
	f := &follower{upgradeCommand: u, client: c, streams: s, id: id, clock: time.Now}
	if u.NoWait {
		return f.printBegun()
	}
	return f.followUpdate(ctx)
}

// requestBody is the body of UpdateNodegroupVersion. Its token is the same as long as no update has
// come between, so that a dry run tells the order in which the update then replaces the nodes, and
// a repeated call begins no second one.
func (u *upgradeCommand) requestBody(g *cluster.NodeGroup) (map[string]any, error) {
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
			return nil,
				fmt.Errorf("--launch-template-version is %q, but node group %s was made without a launch template of its own, expected --release-version", u.LaunchTemplateVersion, g.Name)
		}
		body["launchTemplate"] = map[string]string{"id": g.Target.SourceTemplate, "version": u.LaunchTemplateVersion}
	}
	return body, nil
}

// printPlan prints what the update would do.
func (u *upgradeCommand) printPlan(ctx context.Context, s *streams, c *client.Client, k *whatif.Capacity) error {
	body, err := u.requestBody(k.NodeGroups[u.NodeGroup])
	if err != nil {
		return err
	}
	body["cluster"], body["nodegroupName"] = u.Cluster, u.NodeGroup
	var out berthapi.PlanOutput
	if err := c.Own(ctx, "PlanNodegroupUpdate", body, &out); err != nil {
		return err
	}
	row, err := state.DecodeRow(out.Update.Sort, out.Update.Row)
	if err != nil {
		return err
	}
	update, ok := row.(*cluster.Update)
	if !ok {
		return fmt.Errorf("PlanNodegroupUpdate: %q is no update", out.Update.Sort)
	}
	update.Config = update.Config.MergedWith(u.config)
	answer, err := u.foreseeUpdate(ctx, s, c, k, update)
	if err != nil {
		return err
	}
	if u.JSON {
		err = json.NewEncoder(s.out).Encode(answer)
	} else {
		err = answer.Print(s.out)
	}
	if err == nil && !answer.WouldSucceed() {
		return errUnready
	}
	return err
}

// foreseeUpdate finds out what an update would do that has not begun.
func (u *upgradeCommand) foreseeUpdate(
	ctx context.Context, s *streams, c *client.Client, k *whatif.Capacity, update *cluster.Update,
) (*whatif.UpgradeAnswer, error) {
	if update.Target.Image == "" {
		target, err := resolveTemplate(ctx, c, update.Target)
		var why *cluster.Error
		switch {
		case errors.As(err, &why) && isUnusableTemplate(why.Code):
			return whatif.RefusedUpgrade(k, update, why), nil
		case err != nil:
			return nil, err
		}
		update = nodegroup.ResolveTarget(update, target)
	}
	snap, err := u.readSnapshot(ctx, s, c)
	if err != nil {
		return nil, err
	}
	return whatif.PlanUpgrade(snap, k, update, time.Now())
}

// resolveTemplate is a target with what its launch template says.
func resolveTemplate(ctx context.Context, c *client.Client, t cluster.UpdateTarget) (cluster.UpdateTarget, error) {
	lt, err := c.LaunchTemplate(ctx, nodegroup.SourceTemplate(t))
	if err != nil {
		return t, err
	}
	return nodegroup.TargetFromTemplate(t, lt)
}

// isUnusableTemplate reports whether a code is of a launch template that nobody could use, rather
// than of a call that this user may not make or that can be made again.
func isUnusableTemplate(c cluster.Code) bool {
	return strings.HasPrefix(string(c), "InvalidLaunchTemplate") || c == cluster.CodeInvalidParameter ||
		c == cluster.CodeInvalidRequest
}

func (u *upgradeCommand) readSnapshot(ctx context.Context, s *streams, c *client.Client) (*snapshot.Snapshot, error) {
	say := newProgress(s.err, time.Now)
	defer say.finish()
	rows, err := whatif.ReadRows(ctx, c, u.Cluster, func(n int) {
		say.report("reading the cluster: %d rows so far",
			n)
	})
	if err != nil {
		return nil, err
	}
	return whatif.BuildSnapshot(rows, func(int) {})
}

// beginUpdate begins the update and returns its id.
func (u *upgradeCommand) beginUpdate(ctx context.Context, c *client.Client, g *cluster.NodeGroup) (string, error) {
	body, err := u.requestBody(g)
	if err != nil {
		return "", err
	}
	path := "clusters/" + url.PathEscape(u.Cluster) + "/node-groups/" + url.PathEscape(u.NodeGroup) + "/"
	if config := g.Config.MergedWith(u.config); config != g.Config {
		in := map[string]any{"updateConfig": updateConfig{config.MaxUnavailable, config.MaxUnavailablePercentage,
			string(config.Strategy)}}
		if err := c.EKS(ctx, "UpdateNodegroupConfig", path+"update-config", in, nil); err != nil {
			return "", err
		}
	}
	var out struct {
		Update struct {
			ID string `json:"id"`
		} `json:"update"`
	}
	err = c.EKS(ctx, "UpdateNodegroupVersion", path+"update-version", body, &out)
	return out.Update.ID, err
}
