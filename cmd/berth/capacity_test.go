//go:build unix

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// backend answers the calls of the commands about capacity, to Berth and to Auto Scaling. It has a
// service, web, a node group, workers, and a capacity provider, spot, whose Auto Scaling group is
// asg.
type backend struct {
	mu    sync.Mutex
	rows  []state.Row // of ListClusterRows
	group *cluster.NodeGroup
	last  *cluster.Update // of the node group
	spot  *cluster.CapacityProvider
	auto  *cluster.AutoScalingGroup
	// changes are made one by one, each before an answer of DescribeCapacity.
	changes     []func(*backend)
	now         time.Time // of the scheduler's clock; zero for none
	refuse      string    // calls with this text are refused
	changeCalls []string  // calls that change something, with their bodies
}

func newBackend(t *testing.T) (*backend, string) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	head := cluster.Head{Cluster: "default", Rev: 1}
	b := &backend{
		group: &cluster.NodeGroup{Head: head, Name: "workers", ID: "ng-1", Status: cluster.NodeGroupActive,
			AutoScalingGroup: "asg"},
		spot: &cluster.CapacityProvider{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "spot",
			Group: "asg", Scaling: cluster.DefaultScaling},
		auto: &cluster.AutoScalingGroup{Name: "asg", Max: 4, Desired: 2, Zones: []string{"us-east-1a"},
			Template: "lt-1:1"},
		rows: []state.Row{
			&cluster.TaskDefinition{Head: head, Family: "web", Revision: 1,
				Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}},
			&cluster.Service{
				Head:            head,
				ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web-short"},
				ServiceSpec: cluster.ServiceSpec{
					Strategy: cluster.Replica, Desired: 2, MinHealthy: 100, MaxPercent: 200,
				},
				ServiceStatus: cluster.ServiceStatus{
					Status:     cluster.ServiceActive,
					Deployment: cluster.Deployment{Revision: cluster.Revision{TaskDefinition: "web:1"}},
				},
			},
		},
	}
	b.spot.Scaling.Enabled = true
	for n := range 2 {
		ec2, id := fmt.Sprintf("i-%d", n+1), fmt.Sprintf("node-%d", n+1)
		b.auto.Instances = append(b.auto.Instances, cluster.GroupInstance{ID: ec2, Zone: "us-east-1a",
			Lifecycle: "InService", Template: "lt-1:1"})
		b.rows = append(b.rows, &cluster.Instance{
			Head: head, ID: id, EC2InstanceID: ec2, Status: cluster.InstanceActive, AgentConnected: true,
			RegisteredAt: cluster.At(at),
			Attributes:   map[string]string{cluster.AttributeZone: "us-east-1a"},
			Registered:   cluster.Capacity{CPU: 2048 * cluster.CPUUnit, Memory: 4096},
		}, &cluster.Task{
			Head: head,
			TaskSpec: cluster.TaskSpec{
				ID: fmt.Sprintf("task-%d", n+1), Owner: "web-short", Service: "web", Group: "service:web",
				TaskDefinition: "web:1", Needs: cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512},
			},
			TaskAssignment: cluster.TaskAssignment{Instance: id, Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
		})
	}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func writeRows(t http.ResponseWriter, at time.Time, rows ...state.Row) {
	out := berthapi.RowsOutput{Rows: []berthapi.Row{}, At: at}
	for _, r := range rows {
		data, err := state.EncodeRow(r)
		if err != nil {
			http.Error(t, err.Error(), http.StatusInternalServerError)
			return
		}
		out.Rows = append(out.Rows, berthapi.Row{Sort: state.KeyOf(r).Sort, Row: data})
	}
	_ = json.NewEncoder(t).Encode(out)
}

// updateRow returns the row of an update to a release.
func (b *backend) updateRow(release string) *cluster.Update {
	return &cluster.Update{
		Head: cluster.Head{Cluster: "default", Rev: 1}, NodeGroup: "workers", ID: "u-1",
		Status:         cluster.UpdateInProgress,
		Params:         []cluster.UpdateParam{{Type: "ReleaseVersion", Value: release}},
		UpdateSpec:     cluster.UpdateSpec{Target: cluster.UpdateTarget{Image: release}},
		UpdateProgress: cluster.UpdateProgress{Phase: cluster.PhaseSetup},
	}
}

// ServeHTTP answers one call.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	op := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "Berth_20261121.")
	switch {
	case b.refuse != "" && strings.Contains(string(body), b.refuse):
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w,
			`<ErrorResponse><Error><Code>AccessDenied</Code><Message>not authorized</Message></Error></ErrorResponse>`)
	case strings.Contains(string(body), "Action=DescribeAutoScalingGroups"):
		b.describeGroups(w)
	case strings.Contains(string(body), "Action=DescribeLaunchTemplateVersions"):
		describeVersion(w, string(body))
	case op == "ListClusterRows":
		writeRows(w, b.now, b.rows...)
	case op == "DescribeCapacity":
		if len(b.changes) > 0 {
			b.changes[0](b)
			b.changes = b.changes[1:]
		}
		rows := []state.Row{b.group, b.spot}
		if b.last != nil {
			rows = append(rows, b.last)
		}
		writeRows(w, b.now, rows...)
	case op == "PlanNodegroupUpdate":
		u := b.plannedUpdate(string(body))
		data, _ := state.EncodeRow(u)
		_ = json.NewEncoder(w).Encode(berthapi.PlanOutput{Update: berthapi.Row{Sort: state.KeyOf(u).Sort, Row: data}})
	case strings.HasSuffix(op, "DescribeCapacityProviders"):
		fmt.Fprint(w,
			`{"capacityProviders":[{"capacityProviderArn":"arn:aws:ecs:us-east-1:123456789012:capacity-provider/spot"}]}`)
	default:
		b.answerChange(w, strings.Trim(r.URL.Path+" "+op, " /"), string(body))
	}
}

// plannedUpdate returns the row with which PlanNodegroupUpdate answers. For a node group with a
// launch template of its own it has no image, because Berth's API reads no templates.
func (b *backend) plannedUpdate(body string) *cluster.Update {
	var in struct {
		Release  string                   `json:"releaseVersion"`
		Template struct{ Version string } `json:"launchTemplate"`
	}
	_ = json.Unmarshal([]byte(body), &in)
	u := b.updateRow(in.Release)
	if own := b.group.Target.SourceTemplate; own != "" {
		u.Target = cluster.UpdateTarget{ReleaseVersion: in.Release, SourceTemplate: own,
			SourceVersion: cmp.Or(in.Template.Version, b.group.Target.SourceVersion)}
	}
	return u
}

// describeVersion answers in EC2's query protocol. Launch template lt-7 has versions 1 to 3;
// version 3 names no image, and version 4 may not be read.
func describeVersion(w http.ResponseWriter, body string) {
	form, _ := url.ParseQuery(body)
	version, image := form.Get("LaunchTemplateVersion.1"), "<imageId>ami-2</imageId>"
	switch version {
	case "1", "2":
	case "3":
		image = ""
	case "4":
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w,
			`<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You may not</Message></Error></Errors></Response>`)
		return
	default:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w,
			`<Response><Errors><Error><Code>InvalidLaunchTemplateId.VersionNotFound</Code><Message>no version %s</Message></Error></Errors></Response>`, version)
		return
	}
	fmt.Fprintf(w, `<DescribeLaunchTemplateVersionsResponse><launchTemplateVersionSet><item><launchTemplateId>lt-7</launchTemplateId>
		<launchTemplateName>workers</launchTemplateName><versionNumber>%s</versionNumber><launchTemplateData>%s</launchTemplateData></item>
		</launchTemplateVersionSet></DescribeLaunchTemplateVersionsResponse>`, version, image)
}

func (b *backend) answerChange(w http.ResponseWriter, what, body string) {
	b.changeCalls = append(b.changeCalls, what+" "+body)
	switch {
	case strings.Contains(body, "ami-refused"):
		w.Header().Set("X-Amzn-ErrorType", "InvalidParameterException")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"message":"no such image"}`)
		return
	case strings.HasSuffix(what, "update-version"):
		b.last, b.group.Update, b.group.Status = b.updateRow("ami-2"), "u-1", cluster.NodeGroupUpdating
	}
	fmt.Fprint(w, `{"update":{"id":"u-1"}}`)
}

// describeGroups answers in Auto Scaling's query protocol.
func (b *backend) describeGroups(w http.ResponseWriter) {
	g := b.auto
	fmt.Fprintf(w, `<DescribeAutoScalingGroupsResponse><DescribeAutoScalingGroupsResult><AutoScalingGroups><member>
		<AutoScalingGroupName>%s</AutoScalingGroupName><MinSize>%d</MinSize><MaxSize>%d</MaxSize><DesiredCapacity>%d</DesiredCapacity>
		<AvailabilityZones><member>us-east-1a</member></AvailabilityZones>
		<LaunchTemplate><LaunchTemplateId>lt-1</LaunchTemplateId><Version>1</Version></LaunchTemplate><Instances>`, g.Name, g.Min, g.Max, g.Desired)
	for _, i := range g.Instances {
		fmt.Fprintf(w,
			`<member><InstanceId>%s</InstanceId><AvailabilityZone>%s</AvailabilityZone><LifecycleState>%s</LifecycleState></member>`,
			i.ID, i.Zone, i.Lifecycle)
	}
	fmt.Fprint(w,
		`</Instances></member></AutoScalingGroups></DescribeAutoScalingGroupsResult></DescribeAutoScalingGroupsResponse>`)
}

func TestConsolidate(t *testing.T) {
	b, endpoint := newBackend(t)
	code, out, errs := berth("consolidate", "--dry-run", "--endpoint", endpoint)
	for _, want := range []string{
		"Capacity provider spot (Auto Scaling group asg): consolidation is off, with 10 % of the group in 10m0s.\n",
		"  node-1 (i-1) would be emptied now: there is room for its 1 task elsewhere, at a cost of 1.\n    task task-1 of service web to node-2\n",
		"  node-2 (i-2) stays: it receives tasks of i-1.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
	if code != 0 || errs != "" || len(b.changeCalls) > 0 {
		t.Errorf("exit code %d, %s, asked for %q", code, errs, b.changeCalls)
	}
	if code, out, errs = berth("consolidate", "--endpoint", endpoint); code != 0 ||
		!strings.Contains(out, "consolidation is on") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if code, out, errs = berth("consolidate", "spot", "--off", "--json", "--endpoint", endpoint); code != 0 ||
		!strings.Contains(out, `"enabled":false`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	want := []string{
		`AmazonEC2ContainerServiceV20141113.TagResource {"resourceArn":"arn:aws:ecs:us-east-1:123456789012:capacity-provider/spot","tags":[{"key":"berth:consolidation","value":"true"}]}`,
		`AmazonEC2ContainerServiceV20141113.UntagResource {"resourceArn":"arn:aws:ecs:us-east-1:123456789012:capacity-provider/spot","tagKeys":["berth:consolidation"]}`,
	}
	if fmt.Sprint(b.changeCalls) != fmt.Sprint(want) {
		t.Errorf("asked for %q", b.changeCalls)
	}
	b.spot.Scaling.Enabled = false
	if code, _, errs := berth("consolidate", "spot", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, "managed scaling of capacity provider spot is off") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, _, errs := berth("consolidate", "sport", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, `capacity provider "sport" is not in the cluster, expected one of: spot`) {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, _, errs := berth("consolidate", "--off", "--dry-run", "--endpoint", endpoint); code != 2 ||
		!strings.Contains(errs, "--off is given") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestExplainInstance(t *testing.T) {
	_, endpoint := newBackend(t)
	for _, id := range []string{"node-1", "i-1"} {
		code, out, errs := berth("explain", "instance", id, "--endpoint", endpoint)
		if code != 0 || errs != "" || !strings.Contains(out, "Instance node-1 (i-1) in us-east-1a: ACTIVE.\n") ||
			!strings.Contains(out,
				"Managed scaling (capacity provider spot, Auto Scaling group asg): it runs 1 non-daemon task (task-1 of service web)") {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
	}
	if code, out, errs := berth("explain", "instance", "i-2", "--json", "--endpoint", endpoint); code != 0 ||
		!strings.Contains(out, `"managedScaling":{"capacityProvider":"spot"`) {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if code, _, errs := berth("explain", "instance", "i-9", "--endpoint", endpoint); code != 1 ||
		!strings.Contains(errs, `instance "i-9" is not in the cluster, expected one of: i-1, i-2; did you mean`) {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestExplainServiceOfCapacityProviders(t *testing.T) {
	b, endpoint := newBackend(t)
	explain := func() (string, string) {
		code, out, errs := berth("explain", "service", "web", "--endpoint", endpoint)
		if code != 0 {
			t.Errorf("exit code %d, %s", code, errs)
		}
		return out, errs
	}
	const scaling = "Managed scaling (capacity provider spot, Auto Scaling group asg of 2): the group has the right size: 2 of 2 running instances are needed, the target is 100 %.\n"
	if out, _ := explain(); strings.Contains(out, "Managed scaling") {
		t.Errorf("it has no capacity providers, and %s", out)
	}
	b.rows[1].(*cluster.Service).Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	if out, errs := explain(); !strings.Contains(out, scaling) || errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	b.refuse = "Action=DescribeAutoScalingGroups" // who may not read groups
	if out, errs := explain(); !strings.Contains(out, "Service web (REPLICA, ACTIVE") ||
		strings.Contains(out, "Managed scaling") ||
		!strings.Contains(errs, "the decisions of managed scaling are missing: ") {
		t.Errorf("%s%s", out, errs)
	}
}
