package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// checkClusters judges Berth's clusters at ECS: whether they exist, and whether agents are
// connected. That the API answers is the first part of it.
func checkClusters(f *Facts) Check {
	if f.Clusters.Err != nil {
		finding := notChecked("Berth's API", f.Clusters.Err)
		var denied *Denied
		if !asDenied(f.Clusters.Err, &denied) {
			finding.Verdict, finding.Expected = Fail, "a list of clusters"
			finding.Remedy, finding.Command = "Look at the function's log", f.folderLogCommand("api")
		}
		return newCheck("", "Berth's API and its clusters", finding)
	}
	var found []Finding
	for i := range f.Clusters.Got {
		found = append(found, f.judgeCluster(&f.Clusters.Got[i])...)
	}
	return newCheck("", countOf(len(f.Clusters.Got), "cluster")+" at ECS, and their agents", found...)
}

func (f *Facts) judgeCluster(c *Cluster) (found []Finding) {
	thing := "cluster " + c.Name
	if c.ECS.Err != nil {
		return []Finding{notChecked(thing+" at ECS", c.ECS.Err)}
	}
	if c.ECS.Got.Status != "ACTIVE" {
		status := c.ECS.Got.Status
		if status == "" {
			status = "ECS does not have it"
		}
		return []Finding{{Verdict: Fail, Thing: thing, Value: status, Expected: "ACTIVE",
			Remedy: "It was deleted behind Berth's back. Create it again through Berth, or delete its services",
			Command: fmt.Sprintf("berth proxy --stack %s -- aws ecs create-cluster --cluster-name %s", f.Stack.Name,
				c.Name)}}
	}
	var disconnected []string
	for _, i := range c.ECS.Got.Instances {
		if !i.AgentConnected {
			disconnected = append(disconnected, i.EC2)
		}
	}
	if len(disconnected) > 0 {
		found = append(found, Finding{Verdict: Warn, Thing: thing,
			Value:    "agents that are disconnected from ECS: " + listNames(disconnected),
			Expected: "every agent connected: nothing is started there",
			Remedy: "On the machine, look at /var/log/ecs/ecs-agent.log, and whether it reaches ECS. " +
				"Berth replaces the tasks after LostAfterSeconds",
			Command: f.aws("ssm start-session --target %s", disconnected[0])})
	}
	return found
}

// listed is how many names a finding lists.
const listed = 5

// listNames returns the first names and how many more there are.
func listNames(names []string) string {
	slices.Sort(names)
	if more := len(names) - listed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// eventGrace is how long an event may take.
const eventGrace = 2 * time.Minute

// checkEvents compares the instances that Berth knows with ECS's: what differs was in an event that
// did not arrive.
func checkEvents(f *Facts) Check {
	var found []Finding
	instances := 0
	for i := range f.Clusters.Got {
		c := &f.Clusters.Got[i]
		switch {
		case c.Known.Err != nil:
			found = append(found, notChecked("the instances that Berth knows in cluster "+c.Name, c.Known.Err))
		case c.ECS.Err != nil:
			found = append(found, notChecked("the instances that ECS has in cluster "+c.Name, c.ECS.Err))
		default:
			instances += len(c.ECS.Got.Instances)
			found = append(found, f.judgeEvents(c)...)
		}
	}
	if f.Clusters.Err != nil {
		found = append(found, notChecked("the instances that Berth knows", f.Clusters.Err))
	}
	return newCheck("", countOf(instances, "instance")+" of ECS, as Berth knows them", found...)
}

func (f *Facts) judgeEvents(c *Cluster) (found []Finding) {
	known := map[string]*cluster.Instance{}
	for _, i := range c.Known.Got {
		known[i.ID] = i
	}
	var missing, differing []string
	for _, i := range c.ECS.Got.Instances {
		switch k := known[i.ID]; {
		case i.Status != "ACTIVE" && i.Status != "DRAINING": // it is not one yet, or no longer
		case k == nil:
			if f.Now.Sub(i.RegisteredAt) > eventGrace {
				missing = append(missing, i.EC2)
			}
		case k.AgentConnected != i.AgentConnected || string(k.Status) != i.Status:
			differing = append(differing, i.EC2)
		}
	}
	sweep := f.sweepCommand()
	if len(missing) > 0 {
		found = append(found, Finding{Verdict: Fail, Thing: "events of cluster " + c.Name,
			Value:    "Berth does not know " + listNames(missing) + ", which ECS has",
			Expected: "the event of each registration",
			Remedy: "If rules, mappings and dead letters above are well, look at the log of task-state-change. " +
				"A sweep writes what the events would have written", Command: sweep})
	}
	if len(differing) > 0 {
		found = append(found, Finding{Verdict: Warn, Thing: "events of cluster " + c.Name,
			Value:    "status or agent differ at ECS for " + listNames(differing),
			Expected: "the same, unless something has just changed: ask again", Remedy: "If it stays so, sweep",
			Command: sweep})
	}
	return found
}

// sweepCommand returns a command that compares every cluster with ECS at once.
func (f *Facts) sweepCommand() string {
	return f.aws("lambda invoke --function-name %s --cli-binary-format raw-in-base64-out --payload "+
		`'{"schedule": "sweep"}' /dev/stdout`, f.physical("TaskStateChangeFunction"))
}
