package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"berth/shared/cluster"
)

// A rolloutTier is a tier whose simulated AWS has target groups, Cloud Map and alarms, and can be
// inspected.
type rolloutTier interface {
	Tier
	// SimulatedConfig is for clients of the simulated Elastic Load Balancing, Cloud Map and
	// CloudWatch.
	SimulatedConfig() aws.Config
	// FailTarget lets a task fail the checks of its target groups, for a reason.
	FailTarget(id, reason string) error
	// CheckHealthNow runs what otherwise runs each minute, if time does not pass by itself.
	CheckHealthNow() error
	// SimulatedECS returns a client of ECS itself, behind Berth's back.
	SimulatedECS() *ecs.Client
	// CallBerth calls one of Berth's own operations.
	CallBerth(ctx context.Context, operation, body string) ([]byte, error)
	// PassSecond lets a second pass, if time does not pass by itself.
	PassSecond()
}

func (v *virtual) SimulatedConfig() aws.Config {
	return aws.Config{Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1"), Credentials: anyone,
		HTTPClient: inlineClient{v.api}}
}

func (v *virtual) FailTarget(id, reason string) error {
	return v.AWS.Machines.SetTargetHealth(id, reason)
}

func (v *virtual) CheckHealthNow() error { return nil }

func (v *virtual) SimulatedECS() *ecs.Client {
	return newClient("http://127.0.0.1", inlineClient{v.AWS.ECS.Endpoint()})
}

func (v *virtual) CallBerth(ctx context.Context, operation, in string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", strings.NewReader(in))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "Berth_20261121."+operation)
	answer, err := inlineClient{v.api}.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", operation, body)
	}
	return body, err
}

func (v *virtual) PassSecond() { v.Loop.RunUntil(v.Loop.Now().Add(time.Second)) }

func (l *local) PassSecond() {}

// A watch checks that a service keeps its minimum of healthy tasks. The tasks of a failed zone are
// not Berth's doing, but stopping more before they are replaced is.
type watch struct {
	floor     int // the fewest healthy tasks by minimumHealthyPercent
	lostTasks int // by how many tasks the floor is lowered for now
	leastSeen int // the fewest healthy tasks seen
	looks     int
}

// checkHealthy takes the number of healthy tasks and says what is wrong with it. aware means that
// Berth knows which tasks are dead: from then on the number may fall below neither itself nor the
// minimum.
func (w *watch) checkHealthy(healthy int, aware bool) (wrong string) {
	if healthy+w.lostTasks < w.floor {
		wrong = fmt.Sprintf("%d tasks are healthy where %d must be, and the dead zone took no more than %d", healthy,
			w.floor, w.lostTasks)
	}
	if aware {
		w.lostTasks = min(w.lostTasks, max(0, w.floor-healthy))
	}
	w.leastSeen = min(w.leastSeen, healthy)
	w.looks++
	return wrong
}

func TestWatch(t *testing.T) {
	type look struct {
		healthy int
		aware   bool
	}
	for _, tt := range []struct {
		name  string
		owed  int
		looks []look
		wrong bool
	}{
		{"AtTheMinimum", 0, []look{{12, true}, {9, true}}, false},
		{"BelowTheMinimum", 0, []look{{12, true}, {8, true}, {9, true}}, true},
		{"TheZoneTookThem", 4, []look{{6, false}, {6, true}, {9, true}}, false},
		{"MoreThanTheZoneTook", 4, []look{{4, false}}, true},
		{"TakenOnWhatWasNotKnownYet", 4, []look{{9, false}, {5, false}}, false},
		{"TakenThoughItWasKnown", 4, []look{{7, true}, {6, true}}, true},
		{"TakenAfterItWasMadeUpFor", 4, []look{{6, true}, {9, true}, {8, true}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &watch{floor: 9, lostTasks: tt.owed}
			wrong := false
			for _, l := range tt.looks {
				wrong = w.checkHealthy(l.healthy, l.aware) != "" || wrong
			}
			if wrong != tt.wrong {
				t.Errorf("wrong is %t, want %t", wrong, tt.wrong)
			}
		})
	}
}

// An observation is what was seen at one time.
type observation struct {
	service types.Service
	tasks   []types.Task // not stopped
	healthy []types.Task // of tasks: wanted by Berth, with a healthy target
}

// knownPlaces are facts that do not change: the addresses of tasks, and the machines.
type knownPlaces struct {
	address map[string]string // by ARN of the task
	ec2     map[string]string // by ARN of the instance
	live    map[string]bool   // tasks that had not stopped, by ARN
}

// takeObservation asks Berth first and the target group second, so a task counts only if Berth
// still wanted it.
func (s *rolloutScenario) takeObservation() (at observation) {
	s.t.Helper()
	at.service = s.describeService(s.name)
	listed := mustSucceed(s.api.ListTasks(s.t.Context(),
		&ecs.ListTasksInput{Cluster: &s.cluster, ServiceName: &s.name}))(&s.scenario)
	for _, arn := range listed.TaskArns {
		s.places.live[arn] = true
	}
	if len(s.places.live) == 0 {
		return at
	}
	var arns []string
	for arn := range s.places.live {
		arns = append(arns, arn)
	}
	out := mustSucceed(s.api.DescribeTasks(s.t.Context(),
		&ecs.DescribeTasksInput{Cluster: &s.cluster, Tasks: arns}))(&s.scenario)
	for _, task := range out.Tasks {
		if *task.LastStatus == "STOPPED" {
			delete(s.places.live, *task.TaskArn)
			continue
		}
		at.tasks = append(at.tasks, task)
	}
	health := s.targetHealth()
	for _, task := range at.tasks {
		if *task.LastStatus == "RUNNING" && *task.DesiredStatus == "RUNNING" &&
			health[s.addressOf(task)] == elbtypes.TargetHealthStateEnumHealthy {
			at.healthy = append(at.healthy, task)
		}
	}
	return at
}

// targetHealth returns the health of the targets by address.
func (s *rolloutScenario) targetHealth() map[string]elbtypes.TargetHealthStateEnum {
	s.t.Helper()
	out := mustSucceed(s.elb.DescribeTargetHealth(s.t.Context(),
		&elb.DescribeTargetHealthInput{TargetGroupArn: &s.group}))(&s.scenario)
	by := map[string]elbtypes.TargetHealthStateEnum{}
	for _, d := range out.TargetHealthDescriptions {
		by[net.JoinHostPort(*d.Target.Id, strconv.Itoa(int(*d.Target.Port)))] = d.TargetHealth.State
	}
	return by
}

// addressOf returns the address of a running task, or "" if it has none yet.
func (s *rolloutScenario) addressOf(task types.Task) string {
	s.t.Helper()
	if known := s.places.address[*task.TaskArn]; known != "" {
		return known
	}
	host := s.places.ec2[*task.ContainerInstanceArn]
	if host == "" {
		for _, i := range s.instances() {
			s.places.ec2[*i.ContainerInstanceArn] = aws.ToString(i.Ec2InstanceId)
		}
		host = s.places.ec2[*task.ContainerInstanceArn]
	}
	id := ecsID(s.t, task)
	out := mustSucceed(s.tier.SimulatedECS().DescribeTasks(s.t.Context(),
		&ecs.DescribeTasksInput{Cluster: &s.cluster, Tasks: []string{id}}))(&s.scenario)
	for _, found := range out.Tasks {
		for _, b := range found.Containers[0].NetworkBindings {
			s.places.address[*task.TaskArn] = net.JoinHostPort(host, strconv.Itoa(int(*b.HostPort)))
		}
	}
	return s.places.address[*task.TaskArn]
}

// checkFloor checks the minimum of healthy tasks, and lets Berth check health and alarms.
func (s *rolloutScenario) checkFloor() observation {
	s.t.Helper()
	at := s.takeObservation()
	running, dead := 0, 0
	for _, task := range at.tasks {
		if *task.LastStatus == "RUNNING" {
			running++
			if aws.ToString(task.AvailabilityZone) == s.deadZone {
				dead++
			}
		}
	}
	// The rows that placement has written show how much it knows.
	aware := dead == 0 && int(at.service.RunningCount) == running
	if wrong := s.watch.checkHealthy(len(at.healthy), aware); wrong != "" {
		s.complain(wrong, at)
	}
	if err := s.tier.CheckHealthNow(); err != nil {
		s.t.Fatal(err)
	}
	return at
}

// awaitWatched waits for a condition and checks the minimum all the time.
func (s *rolloutScenario) awaitWatched(what string, done func(observation) bool) {
	s.t.Helper()
	var last observation
	defer func() {
		if s.t.Failed() {
			s.t.Log(last.String())
		}
	}()
	s.await(what, func() bool {
		last = s.checkFloor()
		return done(last)
	})
}

func (s observation) String() string {
	var b strings.Builder
	for _, d := range s.service.Deployments {
		fmt.Fprintf(&b, "%s %s of %s: %d wanted, %d running, %d pending, %s %s\n", *d.Status, *d.Id,
			cluster.LastPart(*d.TaskDefinition),
			d.DesiredCount, d.RunningCount, d.PendingCount, d.RolloutState, aws.ToString(d.RolloutStateReason))
	}
	fmt.Fprintf(&b, "%d tasks have not stopped, %d are healthy\n", len(s.tasks), len(s.healthy))
	for n, e := range s.service.Events {
		if n < 15 {
			fmt.Fprintln(&b, *e.Message)
		}
	}
	return b.String()
}
