package ecs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"go.etcd.io/bbolt"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// tables are what ECS keeps: clusters, task definitions, container instances and tasks. They point
// to each other: a task knows its instance and its definition, an instance its cluster and its
// tasks.
type tables struct {
	kernel    *kernel.Kernel
	options   Options
	clusters  map[string]*ecsCluster // by name, INACTIVE ones included
	families  map[string]*family     // of task definitions, by name
	instances map[string]*instance   // by id, those that are visible
	tasks     map[string]*task       // by id, those that are visible
}

// familyRecord is what is stored of a family. Its revisions have rows of their own.
type familyRecord struct{ Latest int }

// The rows of the file. Keys sort as the resources should be loaded: revisions by number, hence the
// zeros.

func (c *ecsCluster) StoredRow() (string, string, any) { return bucketClusters, c.name(), c.info }
func (f *family) StoredRow() (string, string, any) {
	return bucketFamilies, f.name, familyRecord{Latest: f.latest}
}
func (d *definition) StoredRow() (string, string, any) {
	return bucketDefinitions, fmt.Sprintf("%s:%09d", *d.Def.Family, d.Def.Revision), d
}
func (i *instance) StoredRow() (string, string, any) { return bucketInstances, i.ID, i.instanceRecord }
func (t *task) StoredRow() (string, string, any) {
	return bucketTasks, t.ID, taskRecord{t.taskSpec, t.reportedTask, t.actualTask}
}

// The buckets of the file. Their names and what is in them must not change: users keep fleets.
const (
	bucketClusters    = "clusters"
	bucketFamilies    = "families"
	bucketDefinitions = "definitions"
	bucketInstances   = "instances"
	bucketTasks       = "tasks"
)

// versionLeap is added to instances' versions when the file is opened. Steps that a timer triggered
// are written up to a second later, so versions emitted shortly before a crash may be missing from
// the file, and no version may be emitted twice: the scheduler drops what is not newer.
const versionLeap = 1_000_000

// Buckets implements [kernel.Tables].
func (e *Service) Buckets() []string {
	return []string{bucketClusters, bucketFamilies, bucketDefinitions, bucketInstances, bucketTasks}
}

// Load implements [kernel.Tables].
func (e *Service) Load(tx *bbolt.Tx) error { return e.agents.loadTables(tx) }

// Resume implements [kernel.Tables].
func (e *Service) Resume(now time.Time) { e.agents.resumeTasks(now) }

// loadTables reads the rows in the order in which they refer to each other: a task needs its
// instance and its definition.
func (e *tables) loadTables(tx *bbolt.Tx) error {
	err := kernel.ForEachRow(tx, bucketClusters, func(name string, info types.Cluster) error {
		if arn := e.kernel.Account.ARN("cluster", name); value(info.ClusterArn) != arn {
			return fmt.Errorf("it is %s, expected %s: the file is of another account or Region", value(info.ClusterArn),
				arn)
		}
		e.clusters[name] = newCluster(info)
		return nil
	})
	if err != nil {
		return err
	}
	err = kernel.ForEachRow(tx, bucketFamilies, func(name string, r familyRecord) error {
		e.families[name] = &family{name: name, latest: r.Latest}
		return nil
	})
	if err != nil {
		return err
	}
	err = kernel.ForEachRow(tx, bucketDefinitions, func(_ string, d *definition) error {
		fam := e.families[value(d.Def.Family)]
		if fam == nil {
			return fmt.Errorf("its family is missing")
		}
		fam.revisions = append(fam.revisions, d)
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.loadInstances(tx); err != nil {
		return err
	}
	return e.loadTasks(tx)
}

// loadInstances adds the instances in order of registration, which the file's order by id is not.
func (e *tables) loadInstances(tx *bbolt.Tx) error {
	var all []*instance
	err := kernel.ForEachRow(tx, bucketInstances, func(_ string, r instanceRecord) error {
		c := e.clusters[r.Cluster]
		if c == nil {
			return fmt.Errorf("its cluster %s is missing", r.Cluster)
		}
		all = append(all, &instance{instanceRecord: r, in: c})
		return nil
	})
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, i := range all {
		e.addInstance(i)
		i.Version += versionLeap
	}
	return err
}

// loadTasks adds the tasks in order of start, and reserves what those hold that have not stopped.
func (e *tables) loadTasks(tx *bbolt.Tx) error {
	var all []*task
	err := kernel.ForEachRow(tx, bucketTasks, func(_ string, r taskRecord) error {
		i, d := e.instances[r.Instance], e.findDefinition(r.Definition)
		if i == nil || d == nil {
			return fmt.Errorf("its instance %s or its task definition %s is missing", r.Instance, r.Definition)
		}
		all = append(all, &task{taskSpec: r.taskSpec, reportedTask: r.reportedTask, actualTask: r.actualTask, on: i,
			def: d})
		return nil
	})
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, t := range all {
		e.addTask(t, t.on, t.def)
		if t.Last != cluster.TaskStopped {
			t.on.reserveFor(t, 1)
		}
	}
	return err
}

// resumeTasks sets the timers of the loaded tasks in the order in which they are due, so that what
// happened meanwhile is emitted in the order in which it happened, and expires what is gone.
func (e *agents) resumeTasks(now time.Time) {
	var due []*task
	for _, t := range e.tasks {
		if t.Last == cluster.TaskStopped {
			e.kernel.ScheduleRemoval(t.Reported.Add(e.options.KeepStopped), func() { e.purgeTask(t) })
		}
		if _, ok := t.nextTransition(); ok {
			due = append(due, t)
		}
	}
	for _, i := range e.instances {
		if i.Status == cluster.InstanceInactive {
			e.kernel.ScheduleRemoval(i.GoneAt.Add(e.options.KeepStopped), func() { e.purgeInstance(i) })
		}
		e.kernel.SaveRow(i) // with its new version
	}
	slices.SortFunc(due, func(a, b *task) int {
		x, _ := a.nextTransition()
		y, _ := b.nextTransition()
		return cmp.Or(x.Compare(y), cmp.Compare(a.Seq, b.Seq))
	})
	for _, t := range due {
		e.armTaskTimer(t, now)
	}
}

// findCluster returns an ACTIVE cluster by name or ARN. The empty name is "default".
func (e *tables) findCluster(nameOrARN string) (*ecsCluster, error) {
	c := e.clusters[clusterName(nameOrARN)]
	if c == nil || !c.isActive() {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	return c, nil
}

// inCluster returns a step on an ACTIVE cluster, which fails with ClusterNotFoundException where
// there is none.
func (e *tables) inCluster(nameOrARN string, step func(c *ecsCluster, now time.Time) error) func(now time.Time) error {
	return func(now time.Time) error {
		c, err := e.findCluster(nameOrARN)
		if err != nil {
			return err
		}
		return step(c, now)
	}
}

// clusterName returns the name in a name or an ARN. A call that names none means "default".
func clusterName(nameOrARN string) string {
	if nameOrARN == "" {
		return "default"
	}
	return cluster.LastPart(nameOrARN)
}

// addTask adds a task to the tables.
func (e *tables) addTask(t *task, i *instance, d *definition) {
	t.on, t.def = i, d
	e.tasks[t.ID] = t
	i.tasks = append(i.tasks, t)
	if t.StartedBy != "" {
		i.in.started[t.StartedBy] = append(i.in.started[t.StartedBy], t)
	}
}

// purgeTask removes a STOPPED task, which is no longer visible then.
func (e *tables) purgeTask(t *task) {
	delete(e.tasks, t.ID)
	same := func(o *task) bool { return o == t }
	t.on.tasks = slices.DeleteFunc(t.on.tasks, same)
	started := t.on.in.started
	if started[t.StartedBy] = slices.DeleteFunc(started[t.StartedBy], same); len(started[t.StartedBy]) == 0 {
		delete(started, t.StartedBy)
	}
	e.kernel.DeleteRow(t)
	e.deleteUnusedDefinition(t.def)
}

// deleteUnusedDefinition removes a revision that is DELETE_IN_PROGRESS if no visible task uses it.
// The family keeps its latest number, so that the next revision gets a new one.
func (e *tables) deleteUnusedDefinition(d *definition) {
	if d.Def.Status != types.TaskDefinitionStatusDeleteInProgress {
		return
	}
	for _, t := range e.tasks {
		if t.def == d {
			return
		}
	}
	fam := e.families[*d.Def.Family]
	fam.revisions = slices.DeleteFunc(fam.revisions, func(o *definition) bool { return o == d })
	e.kernel.DeleteRow(d)
}

// findDefinition returns a revision by family:revision or ARN, or the latest ACTIVE one by family.
// It returns nil if there is none.
func (e *tables) findDefinition(nameOrARN string) *definition {
	name, revision, exact := strings.Cut(cluster.LastPart(nameOrARN), ":")
	fam := e.families[name]
	if fam == nil {
		return nil
	}
	n, err := strconv.Atoi(revision)
	for _, d := range slices.Backward(fam.revisions) {
		if exact && err == nil && int(d.Def.Revision) == n || !exact && d.isActive() {
			return d
		}
	}
	return nil
}

// purgeInstance removes an INACTIVE instance, which is no longer visible then. Its tasks stopped
// before it and expire before it.
func (e *tables) purgeInstance(i *instance) {
	delete(e.instances, i.ID)
	i.in.instances = slices.DeleteFunc(i.in.instances, func(o *instance) bool { return o == i })
	e.kernel.DeleteRow(i)
}

// findInstance returns an instance of the cluster by id or ARN, even if it is INACTIVE, or nil.
func (e *tables) findInstance(c *ecsCluster, idOrARN string) *instance {
	i := e.instances[cluster.LastPart(idOrARN)]
	if i == nil || i.in != c {
		return nil
	}
	return i
}

func (e *tables) instanceARN(c *ecsCluster, idOrARN string) string {
	return e.kernel.Account.ARN("container-instance", c.name(), cluster.LastPart(idOrARN))
}
