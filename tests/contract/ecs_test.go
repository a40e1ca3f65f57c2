package contract

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/awsapi"
	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

const region = "eu-central-1"

var testCredentials = credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", "")

// An ecsBackend is an implementation of ECS.
type ecsBackend struct {
	endpoint string
	client   *ecs.Client
	calls    recorder
	// join adds n machines with 2 vCPUs and 8 GiB to a cluster.
	join func(cluster string, n int) error
	// machine returns the identity document of a machine that has joined no cluster.
	machine func() (document string, err error)
	// awaitPending lets pending changes happen.
	awaitPending func()
	// knownDifferences are the clauses that it does not satisfy, with the reason.
	knownDifferences map[string]string
}

// A clock is a loop's clock in the form that the simulated AWS needs.
type clock struct{ *embedded.Loop }

func (c clock) After(d time.Duration, f func()) { c.Loop.After(d, f) }

// simulatedECS returns the simulated AWS behind its HTTP endpoint.
func simulatedECS(t *testing.T) *ecsBackend {
	t.Helper()
	loop := embedded.NewVirtualLoop(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
	f, err := sim.Open(sim.Options{Clock: clock{loop}, Account: cluster.Account{ID: "123456789012", Region: region}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.Handler(f.ECS.Endpoint()))
	t.Cleanup(server.Close)
	settle := func() { loop.RunUntil(loop.Now().Add(time.Minute)) }
	return &ecsBackend{
		endpoint: server.URL,
		join: func(cluster string, n int) error {
			_, err := f.Machines.AddInstances(cluster, n, ec2.Machine{Type: "m5.large"})
			settle()
			return err
		},
		machine: func() (string, error) {
			return fmt.Sprintf(`{"region":%q,"instanceId":"i-0123456789abcdef0","accountId":"123456789012"}`, region),
				nil
		},
		awaitPending: settle,
	}
}

func TestECS(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *ecsBackend{"Moto": motoECS, "Fleet": simulatedECS} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.client = ecs.New(ecs.Options{Region: region, BaseEndpoint: &b.endpoint, Credentials: testCredentials,
				HTTPClient: &b.calls})
			s := &ecsSuite{ecsBackend: b, ctx: t.Context(), adapter: &awsapi.ECS{Client: b.client},
				forwarder: &awsapi.Forwarder{Client: b.client}}
			if err := s.prepareCluster(); err != nil {
				t.Fatal(err)
			}
			checkClauses(t, b.knownDifferences, s.allClauses())
			t.Run("EveryOperationThatFunctionsMayCall", b.calls.checkEveryOperation)
		})
	}
}

// An ecsSuite is the contract of ECS, on one backend.
type ecsSuite struct {
	*ecsBackend
	ctx       context.Context
	adapter   *awsapi.ECS
	forwarder *awsapi.Forwarder
	instances []string
	batches   int
}

// A clause is one property on which Berth relies.
type clause struct {
	name  string
	holds func() error
}

func (s *ecsSuite) allClauses() []clause {
	return slices.Concat(s.describingClauses(), s.startingClauses(), s.stoppingClauses(), s.forwardedClauses(),
		s.clusterClauses(), s.definitionClauses(), s.instanceClauses())
}

const home = "contract"

func (s *ecsSuite) prepareCluster() error {
	if _, err := s.client.CreateCluster(s.ctx, &ecs.CreateClusterInput{ClusterName: aws.String(home)}); err != nil {
		return err
	}
	for range 2 {
		if err := s.registerDefinition("web", 128); err != nil {
			return err
		}
	}
	if err := s.registerDefinition("huge", 1<<20); err != nil {
		return err
	}
	if err := s.join(home, 3); err != nil {
		return err
	}
	var err error
	s.instances, err = s.adapter.ListInstances(s.ctx, home)
	if err == nil && len(s.instances) != 3 {
		err = fmt.Errorf("%d instances are listed, want 3", len(s.instances))
	}
	return err
}

func (s *ecsSuite) registerDefinition(family string, memory int32) error {
	_, err := s.client.RegisterTaskDefinition(s.ctx, &ecs.RegisterTaskDefinitionInput{
		Family: &family, ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("app"), Image: aws.String("nginx"), Cpu: 128, Memory: &memory, Essential: aws.Bool(true),
		}},
	})
	return err
}

// checkCode checks that err is the ECS API's own error, with one of the codes.
func checkCode(err error, want ...cluster.Code) error {
	if err == nil || !slices.Contains(want, cluster.ErrorCode(err)) || errors.Is(err, cluster.ErrAmbiguous) {
		return fmt.Errorf("error %w, want %v", err, want)
	}
	return nil
}

func checkEqual[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func (s *ecsSuite) describingClauses() []clause {
	return []clause{
		{"ClustersAreActive", func() error {
			here, err := s.adapter.ClusterActive(s.ctx, home)
			gone, err2 := s.adapter.ClusterActive(s.ctx, "nowhere")
			return errors.Join(err, err2, checkEqual("a cluster's being active", here, true),
				checkEqual("no cluster's being active", gone, false))
		}},
		{"ADeletedClusterIsNotActive", func() error {
			name := "short-lived"
			_, err := s.client.CreateCluster(s.ctx, &ecs.CreateClusterInput{ClusterName: &name})
			_, err2 := s.client.DeleteCluster(s.ctx, &ecs.DeleteClusterInput{Cluster: &name})
			active, err3 := s.adapter.ClusterActive(s.ctx, name)
			return errors.Join(err, err2, err3, checkEqual("its being active", active, false))
		}},
		{"ListTasksOfNoCluster", func() error {
			_, err := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{Cluster: "nowhere"})
			return checkCode(err, cluster.CodeClusterNotFound)
		}},
		{"ListInstancesOfNoCluster", func() error {
			_, err := s.adapter.ListInstances(s.ctx, "nowhere")
			return checkCode(err, cluster.CodeClusterNotFound)
		}},
		{"TheLatestRevisionStandsForTheFamily", func() error {
			for name, want := range map[string]string{
				"web": "web:2", "web:1": "web:1",
				"arn:aws:ecs:" + region + ":123456789012:task-definition/web:2": "web:2",
			} {
				d, err := s.adapter.DescribeTaskDefinition(s.ctx, name)
				if err != nil {
					return err
				}
				needs := cluster.Resources{CPU: 128 * cluster.CPUUnit, Memory: 128}
				if d.Name() != want || d.Needs.CPU != needs.CPU || d.Needs.Memory != needs.Memory {
					return fmt.Errorf("%s is %s, which needs %+v", name, d.Name(), d.Needs)
				}
			}
			return nil
		}},
		{"UnknownTaskDefinition", func() error {
			_, err := s.adapter.DescribeTaskDefinition(s.ctx, "nothing:7")
			return checkCode(err, cluster.CodeClient)
		}},
		{"InstancesAreDescribed", func() error {
			got, err := s.adapter.DescribeInstances(s.ctx, home,
				append([]string{strings.Repeat("0", 32)}, s.instances...))
			if err != nil {
				return err
			}
			for _, i := range got {
				if !i.IsAvailable() || !slices.Contains(s.instances, i.ID) || i.EC2InstanceID == "" ||
					i.Cluster != home ||
					i.Registered.CPU < 2*cluster.VCPU || i.Registered.Memory < 4096 {
					return fmt.Errorf("instance %+v", i)
				}
			}
			return checkEqual("the number of those that are there", len(got), 3)
		}},
	}
}

// startCall returns a call that starts web on instances, with a new startedBy.
func (s *ecsSuite) startCall(instances ...string) cluster.StartCall {
	s.batches++
	return cluster.StartCall{
		Cluster: home, TaskDefinition: "web:2", Instances: instances,
		StartedBy: cluster.StartedBy("0123456789ab", int64(s.batches), 0),
	}
}

func (s *ecsSuite) startingClauses() []clause {
	return []clause{
		{"StartTaskStartsOneOnEachInstance", func() error {
			call := s.startCall(s.instances[:2]...)
			answer, err := s.adapter.StartTask(s.ctx, call)
			if err != nil || len(answer.Tasks) != 2 || len(answer.Failures) != 0 {
				return fmt.Errorf("%+v, %w", answer, err)
			}
			for n, t := range answer.Tasks {
				if t.StartedBy != call.StartedBy || t.Instance != call.Instances[n] || t.TaskDefinition != "web:2" ||
					t.Cluster != home ||
					t.Desired != cluster.TaskRunning || t.ID == "" {
					return fmt.Errorf("task %+v", t)
				}
			}
			return nil
		}},
		{"TasksAreFoundByStartedByAlone", func() error {
			call := s.startCall(s.instances[:2]...)
			answer, err := s.adapter.StartTask(s.ctx, call)
			if err != nil {
				return err
			}
			ids, err := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{Cluster: home, StartedBy: call.StartedBy})
			want := []string{answer.Tasks[0].ID, answer.Tasks[1].ID}
			slices.Sort(want)
			slices.Sort(ids)
			none, err2 := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{Cluster: home, StartedBy: "berth/nobody/1-0"})
			return errors.Join(err, err2, checkEqual("those listed", fmt.Sprint(ids), fmt.Sprint(want)),
				checkEqual("those of nobody", len(none), 0))
		}},
		{"StartedByIsTheOnlyFilter", func() error {
			_, err := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{Cluster: home, StartedBy: "x",
				Instance: s.instances[0]})
			return checkCode(err, cluster.CodeInvalidParameter)
		}},
		{"ATaskReportsItsInstanceAndVersion", func() error {
			answer, err := s.adapter.StartTask(s.ctx, s.startCall(s.instances[2]))
			if err != nil {
				return err
			}
			s.awaitPending()
			got, err := s.adapter.DescribeTasks(s.ctx, home, []string{answer.Tasks[0].ID})
			if err != nil || len(got) != 1 || got[0].Instance != s.instances[2] || got[0].Version == 0 ||
				got[0].Last != cluster.TaskRunning {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
		{"StartTaskOfNoDefinition", func() error {
			call := s.startCall(s.instances[0])
			call.TaskDefinition = "nothing:7"
			_, err := s.adapter.StartTask(s.ctx, call)
			return checkCode(err, cluster.CodeClient, cluster.CodeInvalidParameter)
		}},
		{"StartTaskOnElevenInstancesIsRefused", func() error {
			_, err := s.adapter.StartTask(s.ctx, s.startCall(slices.Repeat(s.instances, 4)[:11]...))
			return checkCode(err, cluster.CodeInvalidParameter)
		}},
		{"StartTaskOnNoSuchInstanceFailsForIt", func() error {
			answer, err := s.adapter.StartTask(s.ctx, s.startCall(strings.Repeat("0", 32)))
			if err != nil || len(answer.Tasks) != 0 || len(answer.Failures) != 1 ||
				answer.Failures[0].Reason != "MISSING" {
				return fmt.Errorf("%+v, %w", answer, err)
			}
			return nil
		}},
		{"StartTaskBeyondCapacityFailsForIt", func() error {
			call := s.startCall(s.instances[0])
			call.TaskDefinition = "huge:1"
			answer, err := s.adapter.StartTask(s.ctx, call)
			if err != nil || len(answer.Failures) != 1 || answer.Failures[0].Reason != "RESOURCE:MEMORY" ||
				cluster.LastPart(answer.Failures[0].ARN) != s.instances[0] {
				return fmt.Errorf("%+v, %w", answer, err)
			}
			return nil
		}},
	}
}

// startedTask starts a task and returns its id.
func (s *ecsSuite) startedTask() (string, error) {
	answer, err := s.adapter.StartTask(s.ctx, s.startCall(s.instances[1]))
	if err != nil || len(answer.Tasks) != 1 {
		return "", fmt.Errorf("%+v, %w", answer, err)
	}
	s.awaitPending()
	return answer.Tasks[0].ID, nil
}

func (s *ecsSuite) stoppingClauses() []clause {
	return []clause{
		{"AStoppedTaskSaysWhy", func() error {
			id, err := s.startedTask()
			if err != nil {
				return err
			}
			if err := s.adapter.StopTask(s.ctx, home, id, "because"); err != nil {
				return err
			}
			s.awaitPending()
			got, err := s.adapter.DescribeTasks(s.ctx, home, []string{id})
			if err != nil || len(got) != 1 || got[0].Desired != cluster.TaskStopped ||
				!strings.Contains(got[0].Reason, "because") {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return nil
		}},
		{"StoppedTasksAreListedApart", func() error {
			id, err := s.startedTask()
			if err != nil {
				return err
			}
			err = s.adapter.StopTask(s.ctx, home, id, "")
			s.awaitPending()
			running, err2 := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{Cluster: home, Instance: s.instances[1]})
			stopped, err3 := s.adapter.ListTasks(s.ctx, cluster.TaskFilter{
				Cluster: home, Instance: s.instances[1], Desired: cluster.TaskStopped,
			})
			return errors.Join(err, err2, err3, checkEqual("its being listed as running", slices.Contains(running, id),
				false),
				checkEqual("its being listed as stopped", slices.Contains(stopped, id), true))
		}},
		{"StopTaskOfNoTask", func() error {
			return checkCode(s.adapter.StopTask(s.ctx, home, strings.Repeat("0", 32), ""), cluster.CodeInvalidParameter)
		}},
		{"DescribeTasksLeavesOutWhatIsNotThere", func() error {
			id, err := s.startedTask()
			if err != nil {
				return err
			}
			got, err := s.adapter.DescribeTasks(s.ctx, home, []string{strings.Repeat("0", 32), id})
			return errors.Join(err, checkEqual("how many are there", len(got), 1))
		}},
	}
}

// forwardOperation forwards an operation and returns the answer.
func (s *ecsSuite) forwardOperation(operation, format string, args ...any) (string, error) {
	status, answer, err := s.forwarder.Forward(s.ctx, operation, fmt.Appendf(nil, format, args...))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d", operation, status)
	}
	return string(answer), err
}

func (s *ecsSuite) forwardedClauses() []clause {
	return []clause{
		{"ErrorsComeBackAsTheyAre", func() error {
			status, answer, err := s.forwarder.Forward(s.ctx, "DescribeTaskDefinition",
				[]byte(`{"taskDefinition": "nothing"}`))
			return errors.Join(err, checkEqual("the status", status, http.StatusBadRequest),
				checkEqual("the error's being named", strings.Contains(string(answer), "ClientException"), true))
		}},
		{"AttributesAreKept", func() error {
			_, err := s.forwardOperation("PutAttributes", `{"cluster": %q, "attributes": [{"name": "stack", "value": "blue",
				"targetType": "container-instance", "targetId": %q}]}`, home, s.instances[0])
			if err != nil {
				return err
			}
			got, err := s.adapter.DescribeInstances(s.ctx, home, s.instances[:1])
			if err != nil || len(got) != 1 {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return checkEqual("the attribute", got[0].Attributes["stack"], "blue")
		}},
		{"AnInstanceThatDrains", func() error {
			_, err := s.forwardOperation("UpdateContainerInstancesState",
				`{"cluster": %q, "containerInstances": [%q], "status": "DRAINING"}`, home, s.instances[2])
			if err != nil {
				return err
			}
			got, err := s.adapter.DescribeInstances(s.ctx, home, s.instances[2:])
			ids, err2 := s.adapter.ListInstances(s.ctx, home)
			if err != nil || len(got) != 1 || got[0].Status != cluster.InstanceDraining || got[0].IsAvailable() {
				return fmt.Errorf("%+v, %w", got, err)
			}
			return errors.Join(err2, checkEqual("its being listed", slices.Contains(ids, s.instances[2]), true))
		}},
		{"TagsAreKept", func() error {
			arn := "arn:aws:ecs:" + region + ":123456789012:cluster/" + home
			_, err := s.forwardOperation("TagResource", `{"resourceArn": %q, "tags": [{"key": "team", "value": "x"}]}`,
				arn)
			tags, err2 := s.forwardOperation("ListTagsForResource", `{"resourceArn": %q}`, arn)
			return errors.Join(err, err2, checkEqual("the tag's being there", strings.Contains(tags, `"team"`), true))
		}},
	}
}
