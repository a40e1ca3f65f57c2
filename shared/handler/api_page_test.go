package handler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/state"
)

// Pages that are read while tasks and services come, change and go have everything once that was
// there all the time, and nothing twice. A store whose pages skip a row is found.
func TestAPI_PagesUnderChanges(t *testing.T) {
	for name, list := range map[string]pagedList{
		"Tasks":             tasksList(operation.ListTasks{}),
		"StoppedTasks":      tasksList(operation.ListTasks{Desired: cluster.TaskStopped}),
		"TasksOnAnInstance": tasksList(operation.ListTasks{Instance: "i1"}),
		"TasksOfAFamily":    tasksList(operation.ListTasks{Family: "web1"}),
		"Services":          {row: serviceRow, page: servicePage},
	} {
		t.Run(name, func(t *testing.T) {
			found := 0
			for seed := range uint64(20) {
				if problems := walkPages(t, list, seed, false); len(problems) > 0 {
					t.Errorf("seed %d: %q", seed, problems)
				}
				found += len(walkPages(t, list, seed, true))
			}
			if found == 0 {
				t.Error("pages that skip a row were not found")
			}
		})
	}
}

// A pagedList is a list of the API. Rows are numbered; page returns the ids of one page, and the token
// of the next.
type pagedList struct {
	row  func(n int, selected bool) (id string, row state.Row)
	page func(a *api.Dependencies, after string, limit int) (ids []string, next string, err error)
}

// walkPages reads all pages of a list, changes rows between them, and says what is wrong. Every
// third row stays as it is.
func walkPages(t *testing.T, list pagedList, seed uint64, skips bool) (problems []string) {
	t.Helper()
	w, random := newWorld(t), rand.New(rand.NewPCG(seed, 0x70616765))
	put := func(n int, selected bool) string {
		id, row := list.row(n, selected)
		if _, err := w.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	const rows = 60
	seen, stays := map[string]int{}, map[string]bool{}
	for n := range rows {
		id := put(n, n%3 == 0 || random.IntN(2) == 0)
		if n%3 == 0 {
			stays[id] = true
		}
	}
	a := &api.Dependencies{State: w.store, Clock: w.clock}
	if skips {
		a.State = &skippingStore{w.store}
	}
	for after := ""; ; {
		ids, next, err := list.page(a, after, 1+random.IntN(9))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			seen[id]++
		}
		if after = next; after == "" {
			break
		}
		for range random.IntN(8) {
			n := random.IntN(2 * rows)
			if n%3 == 0 {
				n++
			}
			if _, row := list.row(n, true); random.IntN(3) == 0 {
				key := state.KeyOf(row)
				if _, err := w.store.Write(ctx, state.Write{Delete: &key}); err != nil {
					t.Fatal(err)
				}
			} else {
				put(n, random.IntN(2) == 0)
			}
		}
	}
	for id := range stays {
		if seen[id] == 0 {
			problems = append(problems, id+" is on no page")
		}
	}
	for id, times := range seen {
		if times > 1 {
			problems = append(problems, fmt.Sprintf("%s is on %d pages", id, times))
		}
	}
	slices.Sort(problems)
	return problems
}

// A skippingStore forgets the first row of each page after the first.
type skippingStore struct{ state.Store }

func (s *skippingStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	if len(rows) > 0 && r.From[len(r.From)-1] == 0 {
		rows = rows[1:]
	}
	return rows, err
}

// tasksList lists tasks; the selected ones are those that the query wants.
func tasksList(q operation.ListTasks) pagedList {
	return pagedList{
		row: func(n int, selected bool) (string, state.Row) {
			owner := cluster.ShortKey(prod, fmt.Sprint(n%7), epoch)
			row := &cluster.Task{
				Head: cluster.Head{Cluster: prod},
				TaskSpec: cluster.TaskSpec{ID: cluster.RequestedTaskID(owner, "r", n), Owner: owner,
					TaskDefinition: "web1:1"},
				TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: "i1"},
			}
			if selected == (q.Desired == cluster.TaskStopped) {
				row.Desired, row.Last = cluster.TaskStopped, cluster.TaskStopped
			}
			if !selected {
				row.Instance, row.TaskDefinition = "i2", "web2:1"
			}
			return row.ID, row
		},
		page: func(a *api.Dependencies, after string, limit int) ([]string, string, error) {
			q := q
			q.Cluster, q.After, q.Limit = prod, after, limit
			page, err := (&api.Tasks{Dependencies: a}).ListTasks(ctx, q)
			return page.IDs, page.Next, err
		},
	}
}

func serviceRow(n int, selected bool) (string, state.Row) {
	name := fmt.Sprintf("s%03d", n)
	row := &cluster.Service{
		Head: cluster.Head{Cluster: prod}, ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
		ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
	}
	if !selected {
		row.Status = cluster.ServiceDraining
	}
	return name, row
}

func servicePage(a *api.Dependencies, after string, limit int) ([]string, string, error) {
	names, more, err := (&api.Services{Dependencies: a}).ListServices(ctx,
		operation.ListServices{Cluster: prod, After: after, Limit: limit})
	if err != nil || !more {
		return names, "", err
	}
	return names, names[len(names)-1], nil
}
