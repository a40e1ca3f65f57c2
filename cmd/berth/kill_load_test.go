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

// clients call the API at the same time, each about services of its own, and remember what was
// acknowledged.
type clients struct{ all []*loadClient }

// loadClient is one of the clients.
type loadClient struct {
	name     string
	rng      *rand.Rand
	services []*acknowledged
	deleted  []*acknowledged
	made     int      // services
	tasks    []string // ids that RunTask returned
}

// acknowledged is a service as the API acknowledged it. After a call without an answer, several
// states are possible.
type acknowledged struct {
	name string
	may  []outcome
}

// outcome is a possible state of a service: its desired count, or gone if it is deleted or was
// never created.
type outcome int

const gone outcome = -1

func newClients() *clients {
	var c clients
	for n := range 3 {
		c.all = append(c.all, &loadClient{name: fmt.Sprintf("client-%d", n), rng: rand.New(rand.NewPCG(uint64(n), 7))})
	}
	return &c
}

func (c *clients) countServices() (n int) {
	for _, one := range c.all {
		n += one.made
	}
	return n
}

func (c *clients) countTasks() (n int) {
	for _, one := range c.all {
		n += len(one.tasks)
	}
	return n
}

// callUntilKilled lets all clients call until the API dies.
func (c *clients) callUntilKilled(t *testing.T, endpoint string) {
	t.Helper()
	api, ctx := ecsClient(endpoint), stepContext(t)
	var working sync.WaitGroup
	for _, one := range c.all {
		working.Go(func() {
			for ctx.Err() == nil {
				err := one.callOnce(ctx, api)
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
		t.Error("the process was not killed")
	}
}

// callOnce makes one random call. An error means that its outcome is unknown.
func (c *loadClient) callOnce(ctx context.Context, api *ecs.Client) error {
	if c.made == 0 {
		return c.createService(ctx, api)
	}
	switch n := c.rng.IntN(10); {
	case n < 2 && len(c.services) < 4:
		return c.createService(ctx, api)
	case n < 3 && len(c.services) > 1:
		return c.deleteService(ctx, api)
	case n < 6 && len(c.services) > 0:
		return c.scaleService(ctx, api)
	}
	return c.runTask(ctx, api)
}

func (c *loadClient) createService(ctx context.Context, api *ecs.Client) error {
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
	s := &acknowledged{name: fmt.Sprintf("%s-%d", c.name, c.made), may: []outcome{gone}}
	c.services = append(c.services, s)
	return s.recordChange(outcome(n), func() error {
		_, err := api.CreateService(ctx, &ecs.CreateServiceInput{ServiceName: &s.name, TaskDefinition: &c.name,
			DesiredCount: &n})
		return err
	})
}

// recordChange makes a call that changes the service. Without an answer, the service may also be as
// before.
func (s *acknowledged) recordChange(to outcome, call func() error) error {
	before := s.may
	s.may = append(slices.Clone(before), to)
	err := call()
	if err == nil {
		s.may = []outcome{to}
	}
	return err
}

func (c *loadClient) scaleService(ctx context.Context, api *ecs.Client) error {
	s := c.services[c.rng.IntN(len(c.services))]
	n := c.rng.Int32N(7)
	return s.recordChange(outcome(n), func() error {
		_, err := api.UpdateService(ctx, &ecs.UpdateServiceInput{Service: &s.name, DesiredCount: &n})
		return err
	})
}

func (c *loadClient) deleteService(ctx context.Context, api *ecs.Client) error {
	s := c.services[0]
	err := s.recordChange(gone, func() error {
		_, err := api.DeleteService(ctx, &ecs.DeleteServiceInput{Service: &s.name, Force: aws.Bool(true)})
		return err
	})
	c.dropDeleted()
	return err
}

// dropDeleted moves services that are certainly deleted to the others: their names are never used
// again.
func (c *loadClient) dropDeleted() {
	isGone := func(s *acknowledged) bool { return len(s.may) == 1 && s.may[0] == gone }
	for _, s := range c.services {
		if isGone(s) {
			c.deleted = append(c.deleted, s)
		}
	}
	c.services = slices.DeleteFunc(c.services, isGone)
}

// runTask runs tasks that end by themselves after a second.
func (c *loadClient) runTask(ctx context.Context, api *ecs.Client) error {
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

// checkAcknowledged compares what was acknowledged with the rows. Afterwards the state of every
// service is known.
func (c *clients) checkAcknowledged(t *testing.T, l *remains) {
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
		one.dropDeleted()
	}
}

// waitUntilSettled waits until every service runs its tasks, and every task of RunTask has ended.
func (c *clients) waitUntilSettled(t *testing.T, api *ecs.Client) {
	t.Helper()
	for _, one := range c.all {
		for _, s := range one.services {
			awaitRunning(t, api, s.name, int32(s.may[0]))
		}
	}
	ctx, pause := stepContext(t), time.NewTicker(20*time.Millisecond)
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
				t.Fatalf("%s should have %d running tasks and has %d", one.name, wanted, len(out.TaskArns))
			case <-pause.C:
			}
		}
	}
}
