package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// creationErrors says why there are fewer new nodes than there should be (N2).
func creationErrors(u *cluster.Update, v *view) (errors []cluster.UpdateError) {
	add := func(ids []string, format string, args ...any) {
		if len(ids) > 0 {
			errors = append(errors, cluster.UpdateError{
				Code: cluster.NodeCreationFailure, Message: fmt.Sprintf(format, args...), Resources: ids,
			})
		}
	}
	group := []string{v.group.Name}
	if present := v.countPresent(); present < v.group.Desired {
		causes := launchCauses(v.group.Failures)
		for _, cause := range causes {
			add(group, "%s", cause)
		}
		if len(causes) == 0 {
			add(group, "The Auto Scaling group has launched %d of %d instances and reports no failed launch", present,
				v.group.Desired)
		}
	}
	unregistered, unlabelled, unavailable := unreadyNodes(v)
	add(unregistered, "Instances failed to join the cluster: they were launched, but no agent registered. "+
		"See the user data of the launch template")
	add(unlabelled, "Instances lack the labels of the node group, %s. See the user data of the launch template",
		formatLabels(TargetLabels(u)))
	add(unavailable,
		"Instances joined the cluster but are not Ready: their agent is disconnected, or their status is not ACTIVE")
	missing := missingProof(u, v)
	zones := slices.DeleteFunc(v.oldZones(), func(zone string) bool { return !slices.Contains(missing, zone) })
	if len(zones) > 0 && u.Phase == cluster.PhaseScaleUp {
		add(group, "No new node is Ready in %s", strings.Join(zones, ", "))
	}
	return errors
}

// unreadyNodes returns the new nodes that are not Ready, by what they lack.
func unreadyNodes(v *view) (unregistered, unlabelled, unavailable []string) {
	for _, n := range v.nodes {
		switch {
		case n.isLeaving() || !n.upToDate || n.isReady:
		case n.Row == nil:
			unregistered = append(unregistered, n.ID)
		case n.isConnected():
			unlabelled = append(unlabelled, n.ID)
		default:
			unavailable = append(unavailable, n.ID)
		}
	}
	return unregistered, unlabelled, unavailable
}

// launchCauses says why instances could not be launched: a line per cause, with its zones and
// messages.
func launchCauses(failures []LaunchFailure) (lines []string) {
	details := map[string][]string{}
	for _, f := range failures {
		cause := launchCause(f.Code)
		detail := strings.TrimSpace(strings.TrimPrefix(f.Zone+": "+f.Message, ": "))
		if !slices.Contains(details[cause], detail) {
			details[cause] = append(details[cause], detail)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(details)) {
		lines = append(lines, cause+": "+listFirst(details[cause]))
	}
	return lines
}

// launchCause says what an error code of EC2 means for a launch.
func launchCause(code string) string {
	switch code {
	case "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientCapacity", "SpotMaxPriceTooLow":
		return "There is not enough capacity for the instance types (" + code + ")"
	case "InstanceLimitExceeded", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "VolumeLimitExceeded":
		return "The account's limit is reached (" + code + ")"
	case "":
		return "Instances could not be launched"
	}
	return "Instances could not be launched (" + code + ")"
}

func formatLabels(labels map[string]string) string {
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// evictionErrors says what keeps nodes from getting empty (N4).
func evictionErrors(u *cluster.Update, v *view, stuck []cluster.NodeRemoval) (errors []cluster.UpdateError) {
	for _, w := range stuck {
		n := v.byID[w.Instance]
		why := fmt.Sprintf("Tasks did not leave node %s: %s", n.ID, describeBlockingTasks(w, n))
		if !n.isDraining() {
			why = fmt.Sprintf("Node %s does not become DRAINING%s", n.ID, refusalOf(u, n.ID))
		}
		errors = append(errors,
			cluster.UpdateError{Code: cluster.PodEvictionFailure, Resources: []string{n.ID}, Message: why})
	}
	return errors
}

func terminationError(late []cluster.NodeRemoval) cluster.UpdateError {
	ids := instancesOf(late)
	return cluster.UpdateError{
		Code: cluster.UnknownUpdateError, Resources: ids,
		Message: "Instances were terminated but still exist: " + listFirst(ids),
	}
}

// describeBlockingTasks says which tasks are left on a node and why they do not leave.
func describeBlockingTasks(w cluster.NodeRemoval, n *node) string {
	var reasons []string
	for _, t := range n.remainingTasks() {
		reasons = append(reasons, blockedReason(t, w.DrainingAt))
	}
	return listFirst(countRepeats(reasons))
}

// blockedReason says why a task does not leave a node that is DRAINING since then; zero if it is
// not DRAINING yet.
func blockedReason(t Task, drainingAt time.Time) string {
	switch {
	case t.isStopping():
		return fmt.Sprintf("task %s is still stopping", t.Task.ID)
	case !drainingAt.IsZero() && t.Task.CreatedAt.Time().After(drainingAt):
		return fmt.Sprintf("task %s of %s was started on the DRAINING node: it tolerates draining", t.Task.ID,
			t.ownerName())
	case t.Protected:
		return fmt.Sprintf("task %s of %s is protected", t.Task.ID, t.ownerName())
	case t.Task.Foreign:
		return fmt.Sprintf("task %s was not started by Berth", t.Task.ID)
	case t.Task.Service == "":
		return fmt.Sprintf("standalone task %s (%s)", t.Task.ID, t.Task.TaskDefinition)
	case t.Daemon:
		return fmt.Sprintf("%s is a daemon service, whose tasks stop last", t.ownerName())
	case t.BlockedReason != "":
		return fmt.Sprintf("the deployment configuration of %s (%s)", t.ownerName(), t.BlockedReason)
	}
	return fmt.Sprintf("the deployment configuration of %s", t.ownerName())
}

// countRepeats returns each text once, with the number of tasks that share it.
func countRepeats(texts []string) (unique []string) {
	count := map[string]int{}
	for _, text := range texts {
		if count[text]++; count[text] == 1 {
			unique = append(unique, text)
		}
	}
	for k, text := range unique {
		if count[text] > 1 {
			unique[k] = fmt.Sprintf("%s (%d tasks)", text, count[text])
		}
	}
	return unique
}

// maxListed is how many things one message names.
const maxListed = 5

func listFirst(things []string) string {
	if len(things) <= maxListed {
		return strings.Join(things, "; ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(things[:maxListed], "; "), len(things)-maxListed)
}

// refusalOf returns why ECS refused the last change of a node, to be put behind its name.
func refusalOf(u *cluster.Update, id string) string {
	if why := u.Refusals[id]; why != "" {
		return " (" + why + ")"
	}
	return ""
}

// instancesOf returns the EC2 instance ids of removals.
func instancesOf(removals []cluster.NodeRemoval) []string {
	ids := make([]string, len(removals))
	for k, w := range removals {
		ids[k] = w.Instance
	}
	return ids
}

// missingProof returns what does not show yet that the template works: the new nodes that are not
// Ready, and the zones that have old nodes and no new one that is Ready. Nodes that were unready
// before the update began do not count.
func missingProof(u *cluster.Update, v *view) (missing []string) {
	ready := map[string]bool{}
	for _, n := range v.nodes {
		switch {
		case n.isLeaving() || !n.upToDate:
		case n.isReady:
			ready[n.Zone] = true
		case !slices.Contains(u.InitiallyUnready, n.ID):
			missing = append(missing, n.ID)
		}
	}
	for _, zone := range v.oldZones() {
		if !ready[zone] {
			missing = append(missing, zone)
		}
	}
	return missing
}
