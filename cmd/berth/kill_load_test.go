//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	"berth/shared/cluster"
)

// customers call the API at the same time, each for services of its own, and remember what they were told.
type customers struct{ all []*customer }

// customer is one of them.
type customer struct {
	name     string
	rng      *rand.Rand
	services []*promised
	deleted  []*promised
	made     int
	tasks    []string // ids that RunTask gave
}

// promised is a service as the API acknowledged it. Where a call had no answer, more than one state may be true.
type promised struct {
	name string
	may  []outcome
}

// outcome is a state of a service; the desired count is gone for one that is deleted or was never there.
type outcome int

const gone outcome = -1

func newCustomers() *customers {
	var c customers
	for n := range 3 {
		c.all = append(c.all, &customer{name: fmt.Sprintf("customer-%d", n), rng: rand.New(rand.NewPCG(uint64(n), 7))})
	}
	return &c
}

func (c *customers) services() (n int) {
	for _, one := range c.all {
		n += one.made
	}
	return n
}

func (c *customers) tasks() (n int) {
	for _, one := range c.all {
		n += len(one.tasks)
	}
	return n
}

// run has all of them at work until the API dies.
func (c *customers) run(t *testing.T, endpoint string) {
	t.Helper()
	api, ctx := ecsClient(endpoint), limited(t)
	var working sync.WaitGroup
	for _, one := range c.all {
		working.Go(func() {
			for ctx.Err() == nil {
				err := one.act(ctx, api)
				var answered smithy.APIError
				switch {
				case errors.As(err, &answered):
					t.Errorf("%s: %v", one.name, err)
					return
				case err != nil:
					return
				}
			}
		})
	}
	working.Wait()
	if ctx.Err() != nil {
		t.Error("it was not killed")
	}
}

// act is one call. An error means that its outcome is unknown.
func (c *customer) act(ctx context.Context, api *ecs.Client) error {
	if c.made == 0 {
		return c.create(ctx, api)
	}
	switch n := c.rng.IntN(10); {
	case n < 2 && len(c.services) < 4:
		return c.create(ctx, api)
	case n < 3 && len(c.services) > 1:
		return c.remove(ctx, api)
	case n < 6 && len(c.services) > 0:
		return c.scale(ctx, api)
	}
	return c.runTask(ctx, api)
}

func (c *customer) create(ctx context.Context, api *ecs.Client) error {
	_, err := api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: &c.name, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("main"), Image: aws.String("busybox"), Cpu: 8, Memory: aws.Int32(16),
		}},
	})
	if err != nil {
		return err
	}
	c.made++
	n := 1 + c.rng.Int32N(3)
	s := &promised{name: fmt.Sprintf("%s-%d", c.name, c.made), may: []outcome{gone}}
	c.services = append(c.services, s)
	return s.change(outcome(n), func() error {
		_, err := api.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: &s.name, TaskDefinition: &c.name,
			DesiredCount: &n})
		return err
	})
}

// change makes a call after which the service is as said, or if the call has no answer perhaps still as it was.
func (s *promised) change(to outcome, call func() error) error {
	before := s.may
	s.may = append(slices.Clone(before), to)
	err := call()
	if err == nil {
		s.may = []outcome{to}
	}
	return err
}

func (c *customer) scale(ctx context.Context, api *ecs.Client) error {
	s := c.services[c.rng.IntN(len(c.services))]
	n := c.rng.Int32N(7)
	return s.change(outcome(n), func() error {
		_, err := api.UpdateService(ctx, &ecs.UpdateServiceInput{Service: &s.name, DesiredCount: &n})
		return err
	})
}

func (c *customer) remove(ctx context.Context, api *ecs.Client) error {
	s := c.services[0]
	err := s.change(gone, func() error {
		_, err := api.DeleteService(ctx, &ecs.DeleteServiceInput{Service: &s.name, Force: aws.Bool(true)})
		return err
	})
	c.sort()
	return err
}

// sort keeps services that are surely gone apart: their names are never used again.
func (c *customer) sort() {
	isGone := func(s *promised) bool { return len(s.may) == 1 && s.may[0] == gone }
	for _, s := range c.services {
		if isGone(s) {
			c.deleted = append(c.deleted, s)
		}
	}
	c.services = slices.DeleteFunc(c.services, isGone)
}

// runTask runs tasks that end by themselves after a second.
func (c *customer) runTask(ctx context.Context, api *ecs.Client) error {
	out, err := api.RunTask(ctx, &ecs.RunTaskInput{
		TaskDefinition: &c.name, Count: aws.Int32(1 + c.rng.Int32N(3)), Overrides: &types.TaskOverride{
			ContainerOverrides: []types.ContainerOverride{{Name: aws.String("main"), Environment: []types.KeyValuePair{
				{Name: aws.String("BERTH_FLEET_RUN_SECONDS"), Value: aws.String("1")},
			}}},
		},
	})
	if err != nil {
		return err
	}
	for _, task := range out.Tasks {
		c.tasks = append(c.tasks, cluster.LastPart(*task.TaskArn))
	}
	return nil
}

// check compares what was acknowledged with what is there; what was open is known then.
func (c *customers) check(t *testing.T, l *left) {
	t.Helper()
	ids := map[string]bool{}
	for _, row := range l.tasks {
		ids[row.ID] = true
	}
	for _, one := range c.all {
		for _, id := range one.tasks {
			if !ids[id] {
				t.Errorf("task %s was acknowledged and is lost", id)
			}
		}
		for _, s := range slices.Concat(one.services, one.deleted) {
			is := gone
			if row := l.services[s.name]; row != nil && row.Status == cluster.ServiceActive {
				is = outcome(row.Desired)
			}
			if !slices.Contains(s.may, is) {
				t.Errorf("service %s is %d, and was acknowledged as %d", s.name, is, s.may)
			}
			s.may = []outcome{is}
		}
		one.sort()
	}
}

// settled waits until every service runs what it should, and every task that ends by itself has ended.
func (c *customers) settled(t *testing.T, api *ecs.Client) {
	t.Helper()
	for _, one := range c.all {
		for _, s := range one.services {
			awaitRunning(t, api, s.name, int32(s.may[0]))
		}
	}
	ctx, pause := limited(t), time.NewTicker(20*time.Millisecond)
	defer pause.Stop()
	for _, one := range c.all {
		for {
			out, err := api.ListTasks(context.WithoutCancel(ctx), &ecs.ListTasksInput{Family: &one.name})
			if err != nil {
				t.Fatal(err)
			}
			wanted := 0
			for _, s := range one.services {
				wanted += int(s.may[0])
			}
			if len(out.TaskArns) == wanted {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%s wants %d tasks to run on and has %d", one.name, wanted, len(out.TaskArns))
			case <-pause.C:
			}
		}
	}
}
