package listing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
)

// ServiceTable has the columns of services.
func ServiceTable(items []Service, now time.Time) Table[Service] {
	return Table[Service]{items: items, name: func(s Service) string { return s.Name }, columns: []column[Service]{
		{"NAME", false, func(s Service, _ bool) string { return s.Name }, nil},
		{"STATE", false, func(s Service, _ bool) string { return s.State },
			func(s Service) Tone { return StateTone(s.State) }},
		{"RUNNING", false, func(s Service, _ bool) string { return fmt.Sprintf("%d/%d", s.Running, s.Desired) },
			func(s Service) Tone {
				if s.Running < s.Desired {
					return Changing
				}
				return Plain
			}},
		{"PENDING", false, func(s Service, _ bool) string { return strconv.Itoa(s.Pending) }, nil},
		{"TASK DEFINITION", false, func(s Service, _ bool) string { return s.Definition }, nil},
		{"AGE", false, func(s Service, _ bool) string { return Age(s.CreatedAt, now) }, nil},
		{"STATUS", true, func(s Service, _ bool) string { return s.Status }, nil},
		{"STRATEGY", true, func(s Service, _ bool) string { return s.Strategy }, nil},
		{"HEALTHY", true, func(s Service, _ bool) string { return strconv.Itoa(s.Healthy) }, nil},
		{"DEPLOYMENTS", true, func(s Service, _ bool) string { return strconv.Itoa(s.Deployments) }, nil},
		{"ROLLOUT", true, func(s Service, _ bool) string { return s.Rollout }, nil},
	}}
}

// StateTone returns the tone of a service's state, or of a status of a task or an instance.
func StateTone(state string) Tone {
	switch state {
	case "steady", "RUNNING", "ACTIVE", "healthy":
		return Good
	case "failed", "throttled", "blocked", "crashing", "stuck", "INACTIVE", "unhealthy", "disconnected":
		return Wrong
	case "STOPPED":
		return Plain
	}
	return Changing
}

// TaskTable has the columns of tasks.
func TaskTable(items []Task, now time.Time) Table[Task] {
	short := func(id string, wide bool) string {
		if wide {
			return id
		}
		return ShortID(id)
	}
	return Table[Task]{items: items, name: func(t Task) string { return t.ID }, columns: []column[Task]{
		{"ID", false, func(t Task, wide bool) string { return short(t.ID, wide) }, nil},
		{"SERVICE", false, func(t Task, _ bool) string { return t.Service }, nil},
		{"STATUS", false, func(t Task, _ bool) string { return t.Status },
			func(t Task) Tone { return StateTone(t.Status) }},
		{"HEALTH", false, func(t Task, _ bool) string { return t.Health }, func(t Task) Tone {
			if t.Health == "unhealthy" {
				return Wrong
			}
			return Plain
		}},
		{"INSTANCE", false, func(t Task, wide bool) string { return short(t.Instance, wide) }, nil},
		{"TASK DEFINITION", false, func(t Task, _ bool) string { return t.Definition }, nil},
		{"AGE", false, func(t Task, _ bool) string { return Age(t.CreatedAt, now) }, nil},
		{"DESIRED", true, func(t Task, _ bool) string { return t.Desired }, nil},
		{"REASON", true, func(t Task, _ bool) string { return t.Reason }, nil},
	}}
}

// State is the instance's status, or what limits its use more.
func (i Instance) State() string {
	switch {
	case !i.Connected:
		return "disconnected"
	case i.Unschedulable && i.Status == string(cluster.InstanceActive): // an upgrade makes both so
		return "unschedulable"
	}
	return i.Status
}

// InstanceTable has the columns of instances.
func InstanceTable(items []Instance) Table[Instance] {
	return Table[Instance]{items: items, name: func(i Instance) string { return i.ID }, columns: []column[Instance]{
		{"ID", false, func(i Instance, wide bool) string {
			if wide {
				return i.ID
			}
			return ShortID(i.ID)
		}, nil},
		{"EC2", false, func(i Instance, _ bool) string { return i.EC2 }, nil},
		{"STATE", false, func(i Instance, _ bool) string { return i.State() },
			func(i Instance) Tone { return StateTone(i.State()) }},
		{"TYPE", false, func(i Instance, _ bool) string { return i.Type }, nil},
		{"ZONE", false, func(i Instance, _ bool) string { return i.Zone }, nil},
		{"TASKS", false, func(i Instance, _ bool) string { return strconv.Itoa(i.Tasks) }, nil},
		{"CPU", false, func(i Instance, _ bool) string { return i.CPU.String() }, nil},
		{"MEMORY", false, func(i Instance, _ bool) string { return i.Memory.String() }, nil},
		{"PROVIDER", true, func(i Instance, _ bool) string { return i.Provider }, nil},
		{"DOMAINS", true, func(i Instance, _ bool) string {
			return strings.Trim(i.FaultDomain+" "+i.UpgradeDomain, " ")
		}, nil},
		{"ATTRIBUTES", true, func(i Instance, _ bool) string {
			var out []string
			for _, name := range slices.Sorted(maps.Keys(i.Attributes)) {
				if !strings.HasPrefix(name, "ecs.capability") && !strings.HasPrefix(name, "com.amazonaws") {
					out = append(out, strings.TrimSuffix(name+"="+i.Attributes[name], "="))
				}
			}
			return strings.Join(out, ",")
		}, nil},
	}}
}

// String returns "256/2048", with the allocated part first.
func (a Amount) String() string {
	return strconv.FormatFloat(a.Allocated, 'f', -1, 64) + "/" + strconv.FormatFloat(a.Total, 'f', -1, 64)
}

// ClusterTable has the columns of clusters.
func ClusterTable(items []Cluster) Table[Cluster] {
	number := func(of func(Cluster) int) func(Cluster, bool) string {
		return func(c Cluster, _ bool) string { return strconv.Itoa(of(c)) }
	}
	return Table[Cluster]{items: items, name: func(c Cluster) string { return c.Name }, columns: []column[Cluster]{
		{"NAME", false, func(c Cluster, _ bool) string { return c.Name }, nil},
		{"STATUS", false, func(c Cluster, _ bool) string { return c.Status },
			func(c Cluster) Tone { return StateTone(c.Status) }},
		{"INSTANCES", false, number(func(c Cluster) int { return c.Instances }), nil},
		{"SERVICES", false, number(func(c Cluster) int { return c.Services }), nil},
		{"RUNNING", false, number(func(c Cluster) int { return c.Running }), nil},
		{"PENDING", false, number(func(c Cluster) int { return c.Pending }), nil},
	}}
}
