package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"berth/shared/cluster"
)

// storedRow is something that the fleet's file keeps.
type storedRow interface {
	row() (bucket, key string, value any)
}

// familyRecord is what is stored of a family: revisions have rows of their own.
type familyRecord struct{ Latest int }

func (c *ecsCluster) row() (string, string, any) { return bucketClusters, c.name(), c.info }
func (f *family) row() (string, string, any) {
	return bucketFamilies, f.name, familyRecord{Latest: f.latest}
}
func (d *definition) row() (string, string, any) {
	return bucketDefinitions, fmt.Sprintf("%s:%09d", *d.Def.Family, d.Def.Revision), d
}
func (i *instance) row() (string, string, any) { return bucketInstances, i.ID, i.instanceRecord }
func (t *task) row() (string, string, any)     { return bucketTasks, t.ID, t.taskRecord }

const (
	bucketMeta        = "meta"
	bucketClusters    = "clusters"
	bucketFamilies    = "families"
	bucketDefinitions = "definitions"
	bucketInstances   = "instances"
	bucketTasks       = "tasks"

	bucketTargetGroups = "targetGroups"
	bucketRegistries   = "registries"
	bucketAlarms       = "alarms"
	bucketGroups       = "groups"
	bucketTemplates    = "launchTemplates"
)

var buckets = []string{bucketMeta, bucketClusters, bucketFamilies, bucketDefinitions, bucketInstances, bucketTasks,
	bucketTargetGroups, bucketRegistries, bucketAlarms, bucketGroups, bucketTemplates,
}

// flushDelay is how long progress of tasks may be only in memory. It is worked out again after a crash.
const flushDelay = time.Second

// versionLeap is by how much instances' versions go on when the file is opened: more than could have been reported and
// not been written.
const versionLeap = 1_000_000

// touch has the row written with the next flush.
func (f *Fleet) touch(r storedRow) {
	if f.db != nil {
		f.dirty[r] = false
	}
}

// forget has the row deleted with the next flush.
func (f *Fleet) forget(r storedRow) {
	if f.db != nil {
		f.dirty[r] = true
	}
}

// flush writes all that has changed in one transaction; what could not be written is tried again with the next.
func (f *Fleet) flush() error {
	if f.db == nil || len(f.dirty) == 0 {
		return nil
	}
	err := f.db.Update(func(tx *bbolt.Tx) error {
		for r, deleted := range f.dirty {
			bucket, key, value := r.row()
			if deleted {
				if err := tx.Bucket([]byte(bucket)).Delete([]byte(key)); err != nil {
					return err
				}
				continue
			}
			if err := put(tx, bucket, key, value); err != nil {
				return err
			}
		}
		return put(tx, bucketMeta, "counters", f.counters)
	})
	if err == nil {
		clear(f.dirty)
	}
	return err
}

func put(tx *bbolt.Tx, bucket, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding %s %s: %w", bucket, key, err)
	}
	return tx.Bucket([]byte(bucket)).Put([]byte(key), data)
}

// flushLater gathers what changes within a second into one transaction.
func (f *Fleet) flushLater() {
	if f.db == nil || len(f.dirty) == 0 || f.flushQueued {
		return
	}
	f.flushQueued = true
	f.opt.Clock.After(flushDelay, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.flushQueued = false
		if f.flush() != nil {
			f.flushLater()
		}
	})
}

// errInUse is what a second process gets.
var errInUse = errors.New("another process has it open")

func (f *Fleet) open() error {
	db, err := bbolt.Open(f.opt.Path, 0o600, &bbolt.Options{Timeout: 100 * time.Millisecond})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return errInUse
	}
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(b)); err != nil {
				return err
			}
		}
		return f.load(tx)
	})
	if err != nil {
		db.Close()
		return err
	}
	f.db = db
	return nil
}

// each reads the rows of a bucket in order of key.
func each[T any](tx *bbolt.Tx, bucket string, take func(key string, row T) error) error {
	return tx.Bucket([]byte(bucket)).ForEach(func(k, v []byte) error {
		var row T
		err := json.Unmarshal(v, &row)
		if err == nil {
			err = take(string(k), row)
		}
		if err != nil {
			return fmt.Errorf("reading %s %s: %w", bucket, k, err)
		}
		return nil
	})
}

func (f *Fleet) load(tx *bbolt.Tx) error {
	if err := each(tx, bucketMeta, func(_ string, c counters) error { f.counters = c; return nil }); err != nil {
		return err
	}
	err := each(tx, bucketClusters, func(name string, info types.Cluster) error {
		f.clusters[name] = newCluster(info)
		return nil
	})
	if err != nil {
		return err
	}
	err = each(tx, bucketFamilies, func(name string, r familyRecord) error {
		f.families[name] = &family{name: name, latest: r.Latest}
		return nil
	})
	if err != nil {
		return err
	}
	err = each(tx, bucketDefinitions, func(_ string, d *definition) error {
		fam := f.families[value(d.Def.Family)]
		if fam == nil {
			return fmt.Errorf("its family is missing")
		}
		fam.revisions = append(fam.revisions, d)
		return nil
	})
	if err != nil {
		return err
	}
	if err := f.loadInstances(tx); err != nil {
		return err
	}
	if err := f.loadTasks(tx); err != nil {
		return err
	}
	return f.loadBalancing(tx)
}

func (f *Fleet) loadBalancing(tx *bbolt.Tx) error {
	err := each(tx, bucketTargetGroups, func(arn string, g *targetGroup) error { f.targetGroups[arn] = g; return nil })
	if err != nil {
		return err
	}
	err = each(tx, bucketRegistries, func(id string, r *registry) error { f.registries[id] = r; return nil })
	if err != nil {
		return err
	}
	if err := each(tx, bucketAlarms, func(name string, a *alarm) error { f.alarms[name] = a; return nil }); err != nil {
		return err
	}
	if err := each(tx, bucketGroups, func(name string, g *group) error { f.groups[name] = g; return nil }); err != nil {
		return err
	}
	return each(tx, bucketTemplates, func(id string, t *launchTemplate) error { f.templates[id] = t; return nil })
}

func (f *Fleet) loadInstances(tx *bbolt.Tx) error {
	var all []*instance
	err := each(tx, bucketInstances, func(_ string, r instanceRecord) error {
		c := f.clusters[r.Cluster]
		if c == nil {
			return fmt.Errorf("its cluster %s is missing", r.Cluster)
		}
		all = append(all, &instance{instanceRecord: r, in: c})
		return nil
	})
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, i := range all {
		f.register(i)
		i.Version += versionLeap
	}
	return err
}

func (f *Fleet) loadTasks(tx *bbolt.Tx) error {
	var all []*task
	err := each(tx, bucketTasks, func(_ string, r taskRecord) error {
		i, d := f.instances[r.Instance], f.definition(r.Definition)
		if i == nil || d == nil {
			return fmt.Errorf("its instance %s or its task definition %s is missing", r.Instance, r.Definition)
		}
		all = append(all, &task{taskRecord: r, on: i, def: d})
		return nil
	})
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, t := range all {
		f.attach(t, t.on, t.def)
		if t.Last != cluster.TaskStopped {
			t.on.hold(t, 1)
		}
	}
	return err
}

// resume sets timers for what the loaded tasks do next, those whose time has passed first to last, and for what is to
// be forgotten.
func (f *Fleet) resume() {
	now := f.opt.Clock.Now().UTC().Truncate(time.Millisecond)
	var due []*task
	for _, t := range f.tasks {
		if t.Last == cluster.TaskStopped {
			f.gone = append(f.gone, purgeable{at: t.Reported.Add(f.opt.KeepStopped), purge: func() { f.purgeTask(t) }})
		}
		if _, ok := t.next(); ok {
			due = append(due, t)
		}
	}
	for _, i := range f.instances {
		if i.Status == cluster.InstanceInactive {
			f.gone = append(f.gone, purgeable{at: i.GoneAt.Add(f.opt.KeepStopped), purge: func() { f.purgeInstance(i) }})
		}
		f.touch(i) // with its new version
	}
	slices.SortFunc(f.gone, func(a, b purgeable) int { return a.at.Compare(b.at) })
	slices.SortFunc(due, func(a, b *task) int {
		x, _ := a.next()
		y, _ := b.next()
		return cmp.Or(x.Compare(y), cmp.Compare(a.Seq, b.Seq))
	})
	for _, t := range due {
		f.arm(t, now)
	}
	f.resumeGroups()
	f.flushLater()
}
