package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/ec2"
)

// A task's network has at most 16 subnets and 5 security groups.
func TestBoundsOfNetworks(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(1, ec2.Machine{Type: "m5.large"})
	must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{Family: new("own"),
		NetworkMode: types.NetworkModeAwsvpc, ContainerDefinitions: []types.ContainerDefinition{container("app", 1, 6)}})
	start := func(subnets, groups int) error {
		_, err := w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "own:1", Instances: ids,
			Network: &cluster.Network{Subnets: slices.Repeat([]string{"subnet-1"}, subnets),
				SecurityGroups: slices.Repeat([]string{"sg-1"}, groups)}})
		return err
	}
	for _, c := range []struct{ subnets, groups int }{{17, 0}, {0, 0}, {1, 6}} {
		wantCode(t, start(c.subnets, c.groups), cluster.CodeInvalidParameter)
	}
	expect(t, "tasks", len(w.Machines.TaskTruths("prod")), 0)
	check(t, start(16, 5))
	expect(t, "tasks", len(w.Machines.TaskTruths("prod")), 1)
}

func TestStartTaskRefusesTheWholeCall(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(11, ec2.Machine{Type: "m5.large"})
	w.register("web", container("app", 1, 6))
	must(t, w.ECS.Definitions.DeregisterTaskDefinition,
		&ecs.DeregisterTaskDefinitionInput{TaskDefinition: new("web:2")})
	before := len(w.events)
	for _, c := range []struct {
		name string
		call cluster.StartCall
		code cluster.Code
	}{
		{"NoCluster", cluster.StartCall{Cluster: "test", TaskDefinition: "web:1", Instances: ids[:1]},
			cluster.CodeClusterNotFound},
		{"NoInstances", cluster.StartCall{TaskDefinition: "web:1"}, cluster.CodeInvalidParameter},
		{"ElevenInstances", cluster.StartCall{TaskDefinition: "web:1", Instances: ids}, cluster.CodeInvalidParameter},
		{"InstanceTwice", cluster.StartCall{TaskDefinition: "web:1",
			Instances: []string{ids[0], account.ARN("container-instance", "prod", ids[0])}},
			cluster.CodeInvalidParameter},
		{"LongStartedBy", cluster.StartCall{TaskDefinition: "web:1", Instances: ids[:1],
			StartedBy: strings.Repeat("x", 37)}, cluster.CodeInvalidParameter},
		{"OddStartedBy", cluster.StartCall{TaskDefinition: "web:1", Instances: ids[:1], StartedBy: "a b"},
			cluster.CodeInvalidParameter},
		{"NoDefinition", cluster.StartCall{TaskDefinition: "web:9", Instances: ids[:1]}, cluster.CodeClient},
		{"InactiveDefinition", cluster.StartCall{TaskDefinition: "web:2", Instances: ids[:1]}, cluster.CodeClient},
		{"UnknownContainer", cluster.StartCall{TaskDefinition: "web:1", Instances: ids[:1],
			Overrides: &cluster.Overrides{Containers: []cluster.ContainerOverride{{Name: "other"}}}},
			cluster.CodeInvalidParameter},
		{"OddSize", cluster.StartCall{TaskDefinition: "web:1", Instances: ids[:1],
			Overrides: &cluster.Overrides{CPU: "much"}}, cluster.CodeInvalidParameter},
		{"AWSTag", cluster.StartCall{TaskDefinition: "web:1", Instances: ids[:1],
			Launch: &cluster.Launch{Tags: map[string]string{"aws:x": "y"}}}, cluster.CodeInvalidParameter},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.call.Cluster == "" {
				c.call.Cluster = "prod"
			}
			_, err := w.ECS.StartTask(ctx, c.call)
			wantCode(t, err, c.code)
		})
	}
	expect(t, "tasks", len(w.Machines.TaskTruths("prod")), 0)
	expect(t, "events", len(w.events), before)
}

func TestStartTaskAcceptsTheLongestStartedBy(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})
	_, err := w.ECS.StartTask(ctx, cluster.StartCall{
		Cluster: "prod", TaskDefinition: "web", Instances: id, StartedBy: strings.Repeat("a/-_", 9),
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTaskShowsExecuteCommand(t *testing.T) {
	w := newWorld(t, sim.Options{})
	node := w.add(1, ec2.Machine{Type: "m5.large"})
	for _, enabled := range []bool{true, false} {
		answer, err := w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "web", Instances: node,
			Launch: &cluster.Launch{ServiceOptions: cluster.ServiceOptions{ExecuteCommand: enabled}}})
		check(t, err)
		got := must(t, w.ECS.Tasks.DescribeTasks, &ecs.DescribeTasksInput{Cluster: new("prod"),
			Tasks: []string{answer.Tasks[0].ID}})
		expect(t, "enableExecuteCommand", got.Tasks[0].EnableExecuteCommand, enabled)
	}
}

// ECS's agent on Amazon Linux routes logs by FireLens.
func TestTaskWithFireLensStarts(t *testing.T) {
	w := newWorld(t, sim.Options{})
	app := container("app", 16, 16)
	app.LogConfiguration = &types.LogConfiguration{LogDriver: types.LogDriverAwsfirelens}
	answer, err := w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod",
		TaskDefinition: w.register("firelens", app), Instances: w.add(1, ec2.Machine{Type: "m5.large"})})
	if err != nil || len(answer.Failures) > 0 || len(answer.Tasks) != 1 {
		t.Errorf("StartTask answers %+v, %v", answer, err)
	}
}

func TestStartTaskFailuresPerInstance(t *testing.T) {
	w := newWorld(t, sim.Options{})
	gpu := container("train", 256, 512)
	gpu.ResourceRequirements = []types.ResourceRequirement{{Type: types.ResourceTypeGpu, Value: new("1")}}
	port := container("edge", 16, 16)
	port.PortMappings = []types.PortMapping{{ContainerPort: new(int32(80)), HostPort: new(int32(8080))}}
	reserved := container("ssh", 16, 16)
	reserved.PortMappings = []types.PortMapping{{ContainerPort: new(int32(22)), HostPort: new(int32(22))}}
	splunk := container("log", 16, 16)
	splunk.LogConfiguration = &types.LogConfiguration{LogDriver: types.LogDriverSplunk}
	definitions := map[string]string{
		"web": "web:1", "cpu": w.register("cpu", container("app", 2049, 16)),
		"memory": w.register("memory", container("app", 16, 7690)), "gpu": w.register("gpu", gpu),
		"port": w.register("port", port), "reserved": w.register("reserved", reserved),
		"splunk": w.register("splunk", splunk),
		"half":   w.register("half", container("app", 1025, 16)), "fat": w.register("fat", container("app", 16, 4000)),
	}
	for _, c := range []struct {
		name, definition, reason string
		prepare                  func(id string) string
	}{
		{"Unknown", "web", "MISSING", func(string) string { return strings.Repeat("0", 32) }},
		{"Draining", "web", "INACTIVE", func(id string) string {
			must(t, w.ECS.Instances.UpdateContainerInstancesState, &ecs.UpdateContainerInstancesStateInput{
				Cluster: new("prod"), ContainerInstances: []string{id}, Status: types.ContainerInstanceStatusDraining,
			})
			return id
		}},
		{"Deregistered", "web", "INACTIVE", func(id string) string {
			must(t, w.ECS.Instances.DeregisterContainerInstance, &ecs.DeregisterContainerInstanceInput{
				Cluster: new("prod"), ContainerInstance: &id,
			})
			return id
		}},
		{"Disconnected", "web", "AGENT", func(id string) string {
			check(t,
				w.Machines.DisconnectAgent(id))
			return id
		}},
		{"NoAttribute", "splunk", "ATTRIBUTE", nil},
		{"CPU", "cpu", "RESOURCE:CPU", nil},
		{"Memory", "memory", "RESOURCE:MEMORY", nil},
		{"CPUTaken", "half", "RESOURCE:CPU", func(id string) string { w.start("half", id); return id }},
		{"MemoryTaken", "fat", "RESOURCE:MEMORY", func(id string) string { w.start("fat", id); return id }},
		{"GPU", "gpu", "RESOURCE:GPU", nil},
		{"PortOfAgent", "reserved", "RESOURCE:PORTS", nil},
		{"PortTaken", "port", "RESOURCE:PORTS", func(id string) string { w.start("port", id); return id }},
	} {
		t.Run(c.name, func(t *testing.T) {
			good, bad := w.add(1, ec2.Machine{Type: "g4dn.12xlarge"})[0], w.add(1, ec2.Machine{Type: "m5.large"})[0]
			if c.prepare != nil {
				bad = c.prepare(bad)
			}
			others := 1 // that can take it
			instances := []string{bad, good}
			if c.definition == "splunk" || c.definition == "reserved" { // nobody can
				others, instances = 0, instances[:1]
			}
			answer, err := w.ECS.StartTask(ctx, cluster.StartCall{
				Cluster: "prod", TaskDefinition: definitions[c.definition], Instances: instances,
			})
			if err != nil {
				t.Fatal(err)
			}
			want := []cluster.Failure{{ARN: account.ARN("container-instance", "prod", bad), Reason: c.reason}}
			expectAll(t, "failures", answer.Failures, want...)
			expect(t, "tasks", len(answer.Tasks), others)
		})
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStopTaskTakesEffectOnce(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.start("web", w.add(1, ec2.Machine{Type: "m5.large"})...)[0].ID
	wantCode(t, w.ECS.StopTask(ctx, "prod", strings.Repeat("0", 32), ""), cluster.CodeInvalidParameter)
	wantCode(t, w.ECS.StopTask(ctx, "other", id, ""), cluster.CodeClusterNotFound)
	check(t, w.ECS.StopTask(ctx, "prod", id, "first"))
	check(t, w.ECS.StopTask(ctx, "prod", id, "second"))
	w.clock.advance(time.Minute)
	check(t, w.ECS.StopTask(ctx, "prod", id, "third"))
	expect(t, "reason", w.task(id).Reason, "first")
	expect(t, "version", w.task(id).Version, 3)
}

func TestListTasksRefusesBadFilters(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(2, ec2.Machine{Type: "m5.large"})
	tasks := w.start("web", ids...)
	w.clock.advance(10 * time.Second)
	check(t, w.ECS.StopTask(ctx, "prod", tasks[0].ID, "x"))
	for _, c := range []struct {
		name   string
		filter cluster.TaskFilter
		want   []string
	}{
		{"All", cluster.TaskFilter{}, []string{tasks[1].ID}},
		{"StoppedOnes", cluster.TaskFilter{Desired: "STOPPED"}, []string{tasks[0].ID}},
		{"OfInstance", cluster.TaskFilter{Instance: ids[1]}, []string{tasks[1].ID}},
		{"StoppedOfInstance", cluster.TaskFilter{Instance: ids[0], Desired: "STOPPED"}, []string{tasks[0].ID}},
		{"StartedByIsOfThoseWantedRunning", cluster.TaskFilter{StartedBy: "berth/test"}, []string{tasks[1].ID}},
		{"StartedByOfNobody", cluster.TaskFilter{StartedBy: "nobody"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.filter.Cluster = "prod"
			got, err := w.ECS.ListTasks(ctx, c.filter)
			check(t, err)
			expectAll(t, "tasks", got, c.want...)
		})
	}
	for name, filter := range map[string]cluster.TaskFilter{
		"Instance":  {StartedBy: "berth/test", Instance: ids[0]},
		"Desired":   {StartedBy: "berth/test", Desired: "RUNNING"},
		"OddStatus": {Desired: "ODD"},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			filter.Cluster = "prod"
			_, err := w.ECS.ListTasks(ctx, filter)
			wantCode(t, err, cluster.CodeInvalidParameter)
		})
	}
}

func TestDescribeTakesAtMost100(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(101, ec2.Machine{Type: "t3.micro"})
	_, err := w.ECS.DescribeInstances(ctx, "prod", ids)
	wantCode(t, err, cluster.CodeInvalidParameter)
	_, err = w.ECS.DescribeTasks(ctx, "prod", ids)
	wantCode(t, err, cluster.CodeInvalidParameter)
	got, err := w.ECS.DescribeInstances(ctx, "prod", append([]string{"missing"}, ids[:99]...))
	check(t, err)
	expect(t, "instances", len(got), 99)
}

func TestClustersAreCreatedOnceAndDeletedEmpty(t *testing.T) {
	w := newWorld(t, sim.Options{})
	_, err := w.ECS.Clusters.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: new("#")})
	wantCode(t, err, cluster.CodeInvalidParameter)
	must(t, w.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{})
	expect(t, "clusters", len(must(t, w.ECS.Clusters.ListClusters, &ecs.ListClustersInput{}).ClusterArns), 2)

	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	_, err = w.ECS.Clusters.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: new("prod")})
	wantCode(t, err, cluster.CodeContainsInstances)
	check(t, w.Machines.KillInstance(id))
	must(t, w.ECS.Clusters.DeleteCluster, &ecs.DeleteClusterInput{Cluster: new("prod")})
	active, _ := w.ECS.ClusterActive(ctx, "prod")
	expect(t, "active", active, false)
	_, err = w.ECS.ListInstances(ctx, "prod")
	wantCode(t, err, cluster.CodeClusterNotFound)
	out := must(t, w.ECS.Clusters.DescribeClusters, &ecs.DescribeClustersInput{Clusters: []string{"prod", "none"}})
	expect(t, "status", *out.Clusters[0].Status, "INACTIVE")
	expect(t, "failure", *out.Failures[0].Reason, "MISSING")
	must(t, w.ECS.Clusters.CreateCluster, &ecs.CreateClusterInput{ClusterName: new("prod")})
}

// What is wrong with a task definition is said in ECS's words.
func TestInvalidTaskDefinitionsAreRefused(t *testing.T) {
	w := newWorld(t, sim.Options{})
	const one = `"name":"app","image":"nginx","memory":64`
	container := func(more string) string { return `"containerDefinitions":[{` + one + `,` + more + `}]` }
	awsvpc := func(more string) string { return `"networkMode":"awsvpc",` + container(more) }
	after := func(condition, first string) string {
		return `"containerDefinitions":[{` + one + `,"dependsOn":[{"containerName":"other","condition":"` + condition +
			`"}]},{"name":"other","image":"nginx","memory":64` + first + `}]`
	}
	for _, c := range []struct{ definition, words string }{
		{`"containerDefinitions":[]`, "Container list cannot be empty."},
		{`"containerDefinitions":[{` + one + `},{` + one + `}]`,
			"Container names must be unique within a task definition"},
		{container(`"essential":false`), "Task definition doesn't have any essential container"},
		{`"containerDefinitions":[{"name":"app","image":"nginx"}]`, "Invalid setting for container 'app'. At least one " +
			"of 'memory' or 'memoryReservation' must be specified."},
		{container(`"memoryReservation":65`),
			"Invalid setting for container 'app'. 'memory' must be greater than or equal to 'memoryReservation'."},
		{`"memory":"32",` + container(`"cpu":1`), "The 'memory' setting for container 'app' is greater than for the task"},
		{`"cpu":"lots",` + container(`"cpu":1`), "Invalid 'cpu' setting for task."},
		{`"memory":"0.1",` + container(`"cpu":1`), "Invalid 'memory' setting for task."},
		{container(`"mountPoints":[{"sourceVolume":"data","containerPath":"/d"}]`), "Unknown volume 'data'."},
		{container(`"secrets":[{"name":"A","valueFrom":"b"}]`),
			"When you are specifying container secrets, you must also specify a value for 'executionRoleArn'."},
		{container(`"logConfiguration":{"logDriver":"awslogs","options":{"awslogs-region":"eu-west-1"}}`),
			"Log driver awslogs requires options: awslogs-group"},
		{container(`"environmentFiles":` + fmt.Sprintf("[%s]", strings.Repeat(`{"value":"a","type":"s3"},`, 10)+
			`{"value":"a","type":"s3"}`)),
			"The maximum number of environment files was exceeded. Specify ten or less and try again."},
		{container(`"restartPolicy":{"enabled":true,"restartAttemptPeriod":59}`),
			"The 'restartAttemptPeriod' setting for container 'app' must be between 60 and 1800."},
		{container(`"healthCheck":{"command":["CMD","true"],"interval":301}`),
			"Health check interval must be less than or equal to the maximum allowed value 300 for container 'app'"},
		{container(`"healthCheck":{"command":["CMD","true"],"retries":0}`),
			"Health check retries must be greater than or equal to the minimum allowed value 1 for container 'app'"},

		{container(`"dependsOn":[{"containerName":"other","condition":"START"}]`),
			"Cannot depend on container + 'other' because it does not exist"},
		{after("SUCCESS", ""), "A dependency container with SUCCESS or COMPLETE condition cannot be an essential container"},
		{after("COMPLETE", ""),
			"A dependency container with SUCCESS or COMPLETE condition cannot be an essential container"},
		{after("HEALTHY", ""), "A dependency container with HEALTHY condition must have health check configured"},
		{container(`"dependsOn":[{"containerName":"app","condition":"START"}]`),
			"Container dependencies should not have a cycle"},
		{after("START", `,"dependsOn":[{"containerName":"third","condition":"START"}]},
			{"name":"third","image":"nginx","memory":64,"dependsOn":[{"containerName":"app","condition":"START"}]`),
			"Container dependencies should not have a cycle"},
		{container(`"links":["other"]},{"name":"other","image":"nginx","memory":64,"links":["app:web"]`),
			"Container links should not have a cycle"},

		{container(`"portMappings":[{"containerPort":80,"hostPort":80},{"containerPort":81,"hostPort":80}]`),
			"Host port 80 is used more than once in the task definition."},
		{`"networkMode":"host",` + container(`"portMappings":[{"containerPort":80,"hostPort":81}]`),
			"When networkMode=host, the host ports and container ports in port mappings must match."},
		{container(`"portMappings":[{"containerPortRange":"90-80"}]`),
			"Invalid 'containerPortRange' setting for container 'app'."},
		{container(`"portMappings":[{"containerPort":80,"containerPortRange":"80-90"}]`),
			"Invalid port mapping for container 'app', cannot specify both single port and port range."},
		{awsvpc(`"portMappings":[{"containerPort":80,"hostPort":81}]`),
			"When networkMode=awsvpc, the host ports and container ports in port mappings must match."},
		{awsvpc(`"portMappings":[{"containerPort":80},{"containerPort":80}]`),
			"TCP container port '80' is used multiple times in task when networkMode=awsvpc."},
		{awsvpc(`"portMappings":[{"containerPort":80,"name":"a"},{"containerPort":81,"name":"a"}]`),
			"When networkMode=awsvpc, port mapping name is already used"},
		{awsvpc(`"hostname":"h"`), "hostname is not supported on container when networkMode=awsvpc."},
		{awsvpc(`"extraHosts":[{"hostname":"a","ipAddress":"10.0.0.1"}]`),
			"Extra hosts are not supported on container when networkMode=awsvpc."},
		{awsvpc(`"disableNetworking":true`),
			"Disable Networking is not supported on container when networkMode=awsvpc."},
		{awsvpc(`"links":["b"]`), "Links are not supported when networkMode=awsvpc."},

		{`"ephemeralStorage":{"sizeInGiB":20},` + container(`"cpu":1`), "EphemeralStorage size should be at least 21"},
		{`"ephemeralStorage":{"sizeInGiB":201},` + container(`"cpu":1`), "EphemeralStorage size should be at most 200"},
		{`"proxyConfiguration":{"type":"APPMESH","containerName":"app"},` + container(`"cpu":1`),
			"APPMESH proxy configuration is only supported in networkMode=awsvpc"},
		{`"requiresCompatibilities":["FARGATE"],` + container(`"cpu":1`),
			"Fargate only supports network mode ‘awsvpc’."},
		{`"requiresCompatibilities":["FARGATE"],` + awsvpc(`"cpu":1`),
			"Fargate requires that 'cpu' be defined at the task level."},
		{`"requiresCompatibilities":["FARGATE"],"cpu":"256",` + awsvpc(`"cpu":1`),
			"Fargate requires that 'memory' be defined at the task level."},
	} {
		status, answer := w.call("RegisterTaskDefinition", `{"family":"x",`+c.definition+`}`)
		if status != 400 || answer["__type"] != "ClientException" || answer["message"] != c.words {
			t.Errorf("%s: %d %v, want %q", c.definition, status, answer, c.words)
		}
	}
	status, answer := w.call("RegisterTaskDefinition", `{"family":"a b",`+container(`"cpu":1`)+`}`)
	if status != 400 || answer["message"] != "Family contains invalid characters." {
		t.Errorf("an odd family: %d %v", status, answer)
	}
	families := must(t, w.ECS.Definitions.ListTaskDefinitionFamilies, &ecs.ListTaskDefinitionFamiliesInput{}).Families
	expectAll(t, "families", families, "web")
}

// What is at the edge of those bounds is taken.
func TestValidTaskDefinitionsAreTaken(t *testing.T) {
	w := newWorld(t, sim.Options{})
	const one = `{"family":"x","containerDefinitions":[{"name":"app","image":"nginx","memory":64,`
	for _, c := range []string{
		one + `"memoryReservation":64}]}`,
		`{"family":"x","memory":"64","containerDefinitions":[{"name":"app","image":"nginx","memory":64}]}`,
		one + `"healthCheck":{"command":["CMD","true"],"interval":5,"timeout":60,"retries":10,"startPeriod":0}}]}`,
		one + `"dependsOn":[{"containerName":"b","condition":"SUCCESS"}]},
			{"name":"b","image":"b","memory":64,"essential":false}]}`,
		one + `"links":["b:x","c"],"dependsOn":[{"containerName":"b","condition":"START"},
			{"containerName":"c","condition":"START"}]},
			{"name":"b","image":"b","memory":64,"links":["c"],"dependsOn":[{"containerName":"c","condition":"START"}]},
			{"name":"c","image":"c","memory":64}]}`,
		one + `"portMappings":[{"containerPort":80,"hostPort":80},{"containerPort":80,"hostPort":80,"protocol":"udp"},
			{"containerPort":81},{"containerPort":81},{"containerPortRange":"90-99"}]}]}`,
		one + `"mountPoints":[{"sourceVolume":"data","containerPath":"/d"}]}],"volumes":[{"name":"data"}]}`,
		one + `"secrets":[{"name":"A","valueFrom":"b"}]}],"executionRoleArn":"arn:aws:iam::123456789012:role/r"}`,
		one + `"restartPolicy":{"enabled":true,"restartAttemptPeriod":1800}}],"ephemeralStorage":{"sizeInGiB":21}}`,
	} {
		if status, answer := w.call("RegisterTaskDefinition", c); status != 200 {
			t.Errorf("%s: %d %v", c, status, answer)
		}
	}
}

// The settings of a cluster, and its configuration of ECS Exec, are refused in ECS's words, by each
// operation that has them.
func TestInvalidClusterSettingsAreRefused(t *testing.T) {
	w := newWorld(t, sim.Options{})
	exec := func(of string) string { return `"configuration":{"executeCommandConfiguration":{` + of + `}}` }
	for _, c := range []struct{ member, words string }{
		{`"settings":[{"name":"insights","value":"enabled"}]`, "Invalid setting 'name'"},
		{`"settings":[{"name":"containerInsights","value":"enhaced"}]`, "Invalid setting 'value'"},
		{`"settings":[{"name":"containerInsights"}]`, "Invalid setting 'value'"},
		{exec(`"logging":"OVERRIDE"`), "A CloudWatch log group name or S3 bucket name must be specified when " +
			"overriding the default log configuration."},
		{exec(`"logging":"DEFAULT","logConfiguration":{"cloudWatchLogGroupName":"g"}`),
			"You must set logging to 'OVERRIDE' when you supply a log configuration."},
	} {
		for op, cluster := range map[string]string{"CreateCluster": `"clusterName":"new"`, "UpdateCluster": `"cluster":"prod"`,
			"UpdateClusterSettings": `"cluster":"prod"`} {
			if op == "UpdateClusterSettings" && strings.Contains(c.member, "configuration") {
				continue
			}
			status, answer := w.call(op, "{"+cluster+","+c.member+"}")
			if status != 400 || answer["__type"] != "InvalidParameterException" || answer["message"] != c.words {
				t.Errorf("%s with %s: %d %v, want %q", op, c.member, status, answer, c.words)
			}
		}
	}
	for _, good := range []string{`"settings":[{"name":"containerInsights","value":"enhanced"}]`,
		exec(`"logging":"OVERRIDE","logConfiguration":{"s3BucketName":"b"}`), exec(`"logging":"NONE"`)} {
		if status, answer := w.call("UpdateCluster", `{"cluster":"prod",`+good+`}`); status != 200 {
			t.Errorf("%s: %d %v", good, status, answer)
		}
	}
}

// A definition of 64 KiB as JSON is taken, a longer one refused in ECS's words. So are constraints
// that cannot be parsed.
func TestBoundsOfTaskDefinitions(t *testing.T) {
	w := newWorld(t, sim.Options{})
	register := func(bytes int, constraints ...types.TaskDefinitionPlacementConstraint) error {
		c := container("a", 1, 6)
		c.DockerLabels = map[string]string{"k": strings.Repeat("x", bytes)}
		_, err := w.ECS.Definitions.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{Family: new("long"),
			ContainerDefinitions: []types.ContainerDefinition{c}, PlacementConstraints: constraints})
		return err
	}
	const limit = 64 << 10
	if err := register(limit - 1000); err != nil {
		t.Error(err)
	}
	err := register(limit)
	wantCode(t, err, cluster.CodeClient)
	if text := err.Error(); !strings.Contains(text, "Actual length: '6") ||
		!strings.Contains(text, "Max allowed length is '65536' bytes.") {
		t.Error(text)
	}
	member := types.TaskDefinitionPlacementConstraintTypeMemberOf
	for name, c := range map[string]types.TaskDefinitionPlacementConstraint{
		"OtherType":    {Type: "distinctInstance"},
		"NoExpression": {Type: member},
		"Malformed":    {Type: member, Expression: new("attribute:zone ==")},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, register(1, c), cluster.CodeClient) })
	}
	if err := register(1, types.TaskDefinitionPlacementConstraint{Type: member,
		Expression: new("attribute:zone == a")}); err != nil {
		t.Error(err)
	}
}

func TestTaskDefinitionLifeCycle(t *testing.T) {
	w := newWorld(t, sim.Options{})
	for range 11 {
		w.register("web", container("app", 1, 6))
	}
	sized := must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{
		Family: new("sized"), Cpu: new(".5 vCPU"), Memory: new("1 GB"),
		ContainerDefinitions: []types.ContainerDefinition{{Name: new("a"), Image: new("b")}},
	}).TaskDefinition
	expect(t, "size", *sized.Cpu+"/"+*sized.Memory, "512/1024")

	var listed []string
	var token *string
	for {
		out := must(t, w.ECS.Definitions.ListTaskDefinitions, &ecs.ListTaskDefinitionsInput{
			FamilyPrefix: new("web"), Sort: types.SortOrderDesc, MaxResults: new(int32(5)), NextToken: token,
		})
		for _, arn := range out.TaskDefinitionArns {
			listed = append(listed, cluster.LastPart(arn))
		}
		if token = out.NextToken; token == nil {
			break
		}
	}
	expect(t, "newest first", strings.Join(listed, " "),
		"web:12 web:11 web:10 web:9 web:8 web:7 web:6 web:5 web:4 web:3 web:2 web:1")

	remove := &ecs.DeleteTaskDefinitionsInput{TaskDefinitions: []string{"web:12"}}
	expect(t, "failures of an ACTIVE one", len(must(t, w.ECS.Definitions.DeleteTaskDefinitions, remove).Failures), 1)
	must(t, w.ECS.Definitions.DeregisterTaskDefinition,
		&ecs.DeregisterTaskDefinitionInput{TaskDefinition: new("web:12")})
	latest := must(t, w.ECS.Definitions.DescribeDefinition,
		&ecs.DescribeTaskDefinitionInput{TaskDefinition: new("web")})
	expect(t, "latest ACTIVE", latest.TaskDefinition.Revision, 11)
	must(t, w.ECS.Definitions.DeleteTaskDefinitions, remove)
	_, err := w.ECS.Definitions.DescribeDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: new("web:12")})
	wantCode(t, err, cluster.CodeClient)
	expect(t, "the next revision", w.register("web", container("app", 1, 6)), "web:13")
}

func TestAttributesAreSetAllOrNone(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large", Zones: []string{"z"}, Attributes: map[string]string{"rack": "r1"}})[0]
	put := func(pairs ...string) error {
		in := &ecs.PutAttributesInput{Cluster: new("prod")}
		for k := 0; k < len(pairs); k += 2 {
			in.Attributes = append(in.Attributes, types.Attribute{Name: &pairs[k], Value: &pairs[k+1], TargetId: &id})
		}
		_, err := w.ECS.Attributes.PutAttributes(ctx, in)
		return err
	}
	for name, pair := range map[string][2]string{
		"BuiltIn": {"ecs.instance-type", "x"}, "OddName": {"a b", "x"}, "Space": {"a", " x"},
		"Long": {"a", strings.Repeat("x", 129)},
	} {
		t.Run("Refuses"+name, func(t *testing.T) {
			wantCode(t, put("good", "1", pair[0], pair[1]), cluster.CodeInvalidParameter)
		})
	}
	if _, ok := w.instance(id).Attributes["good"]; ok {
		t.Error("a refused call took effect in part")
	}
	check(t, put("berth.fault-domain", "fd:/dc1/r0", "rack", "r2"))
	expect(t, "rack", w.instance(id).Attributes["rack"], "r2")
	expect(t, "fault domain", w.instance(id).Attributes[cluster.AttributeFaultDomain], "fd:/dc1/r0")
	expect(t, "zone", w.instance(id).Zone(), "z")
	for k := range 8 {
		check(t, put(fmt.Sprint("more", k), "x"))
	}
	wantCode(t, put("eleventh", "x"), cluster.CodeAttributeLimit)
	wantCode(t, func() error {
		_, err := w.ECS.Attributes.PutAttributes(ctx,
			&ecs.PutAttributesInput{Cluster: new("prod"),
				Attributes: []types.Attribute{{Name: new("a"), TargetId: new("none")}}})
		return err
	}(), cluster.CodeTargetNotFound)

	out := must(t, w.ECS.Attributes.ListAttributes, &ecs.ListAttributesInput{
		Cluster: new("prod"), TargetType: types.TargetTypeContainerInstance, AttributeName: new("rack"),
	})
	expect(t, "listed", len(out.Attributes), 1)
	remove := &ecs.DeleteAttributesInput{Cluster: new("prod"),
		Attributes: []types.Attribute{{Name: new("rack"), TargetId: &id}}}
	must(t, w.ECS.Attributes.DeleteAttributes, remove)
	_, err := w.ECS.Attributes.DeleteAttributes(ctx, remove)
	wantCode(t, err, cluster.CodeTargetNotFound)
	last := w.events[len(w.events)-1].Detail.(*cluster.Instance)
	if _, ok := last.Attributes["rack"]; ok {
		t.Error("the last event still has the attribute")
	}
}

func TestTagsAreMergedAndChecked(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	task := w.start("web", id)[0].ID
	for _, arn := range []string{
		account.ARN("cluster", "prod"), account.ARN("container-instance", "prod", id),
		account.ARN("task", "prod", task),
		account.ARN("task-definition", "web:1"),
	} {
		must(t, w.ECS.Tags.TagResource, &ecs.TagResourceInput{ResourceArn: &arn,
			Tags: []types.Tag{{Key: new("a"), Value: new("1")}, {Key: new("b"), Value: new("2")}}})
		must(t, w.ECS.Tags.TagResource, &ecs.TagResourceInput{ResourceArn: &arn,
			Tags: []types.Tag{{Key: new("a"), Value: new("3")}}})
		must(t, w.ECS.Tags.UntagResource, &ecs.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"b", "c"}})
		tags := must(t, w.ECS.Tags.ListTagsForResource, &ecs.ListTagsForResourceInput{ResourceArn: &arn}).Tags
		if len(tags) != 1 || *tags[0].Key != "a" || *tags[0].Value != "3" {
			t.Errorf("tags of %s: %v", arn, tags)
		}
	}
	many := make([]types.Tag, 51)
	for k := range many {
		many[k] = types.Tag{Key: new(fmt.Sprint(k)), Value: new("")}
	}
	_, err := w.ECS.Tags.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: new(account.ARN("cluster", "prod")),
		Tags: many})
	wantCode(t, err, cluster.CodeInvalidParameter)
	_, err = w.ECS.Tags.TagResource(ctx, &ecs.TagResourceInput{ResourceArn: new(account.ARN("cluster", "none")),
		Tags: many[:1]})
	wantCode(t, err, cluster.CodeInvalidParameter)
}

func TestInstancePagesHaveEachInstanceOnce(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(25, ec2.Machine{Type: "t3.micro"})
	var seen []string
	var token *string
	for round := range 100 {
		out := must(t, w.ECS.Instances.ListContainerInstances, &ecs.ListContainerInstancesInput{
			Cluster: new("prod"), MaxResults: new(int32(4)), NextToken: token,
		})
		for _, arn := range out.ContainerInstanceArns {
			seen = append(seen, cluster.LastPart(arn))
		}
		if round == 2 { // the last one given goes away between two pages
			check(t, w.Machines.KillInstance(seen[len(seen)-1]))
		}
		if token = out.NextToken; token == nil {
			break
		}
	}
	slices.Sort(ids)
	slices.Sort(seen)
	expectAll(t, "instances", seen, ids...)
	_, err := w.ECS.Instances.ListContainerInstances(ctx,
		&ecs.ListContainerInstancesInput{Cluster: new("prod"), NextToken: new("!")})
	wantCode(t, err, cluster.CodeInvalidParameter)
}

func TestDeregisterNeedsForceWhereTasksRun(t *testing.T) {
	w := newWorld(t, sim.Options{})
	id := w.add(1, ec2.Machine{Type: "m5.large"})[0]
	task := w.start("web", id)[0].ID
	in := &ecs.DeregisterContainerInstanceInput{Cluster: new("prod"), ContainerInstance: &id}
	_, err := w.ECS.Instances.DeregisterContainerInstance(ctx, in)
	wantCode(t, err, cluster.CodeInvalidParameter)
	in.Force = new(true)
	must(t, w.ECS.Instances.DeregisterContainerInstance, in)
	expect(t, "task", w.task(task).Last, cluster.TaskStopped)
	expect(t, "instance", w.instance(id).Status, cluster.InstanceInactive)
}

// A volume with configuredAtLaunch needs an agent that attaches EBS volumes, and exactly one
// configuration at the start. The task shows it as ECS describes attachments.
func TestVolumesAtLaunch(t *testing.T) {
	w := newWorld(t, sim.Options{})
	ids := w.add(2, ec2.Machine{Type: "m5.large"})
	d := must(t, w.ECS.Definitions.RegisterTaskDefinition, &ecs.RegisterTaskDefinitionInput{Family: new("db"),
		ContainerDefinitions: []types.ContainerDefinition{container("app", 1, 6)},
		Volumes: []types.Volume{{Name: new("data"), ConfiguredAtLaunch: new(true)},
			{Name: new("scratch")}}})
	if !slices.ContainsFunc(d.TaskDefinition.RequiresAttributes, func(a types.Attribute) bool {
		return *a.Name == "ecs.capability.storage.ebs-task-volume-attach"
	}) {
		t.Errorf("requiresAttributes: %v", d.TaskDefinition.RequiresAttributes)
	}
	volume := cluster.Volume{Name: "data", Role: "arn:aws:iam::123456789012:role/r", GiB: 20, Kept: true}
	other, noRole := volume, volume
	other.Name, noRole.Role = "scratch", ""
	for name, volumes := range map[string][]cluster.Volume{
		"Missing": nil, "Twice": {volume, volume}, "NotAtLaunch": {other}, "NoRole": {noRole},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "db:1",
				Instances: ids[:1],
				Launch:    &cluster.Launch{Volumes: volumes}})
			wantCode(t, err, cluster.CodeInvalidParameter)
		})
	}
	out, err := w.ECS.StartTask(ctx, cluster.StartCall{Cluster: "prod", TaskDefinition: "db:1", Instances: ids,
		Launch: &cluster.Launch{Volumes: []cluster.Volume{volume}}})
	if err != nil || len(out.Tasks) != 2 {
		t.Fatal(out, err)
	}
	shown := must(t, w.ECS.Tasks.DescribeTasks, &ecs.DescribeTasksInput{Cluster: new("prod"),
		Tasks: []string{out.Tasks[0].ID, out.Tasks[1].ID}})
	volumeIDs := map[string]bool{}
	for _, task := range shown.Tasks {
		a := task.Attachments[0]
		details := map[string]string{}
		for _, d := range a.Details {
			details[*d.Name] = *d.Value
		}
		volumeIDs[details["volumeId"]] = true
		delete(details, "volumeId")
		expect(t, "attachment", *a.Type+" "+*a.Status, "AmazonElasticBlockStorage ATTACHED")
		expect(t, "details", fmt.Sprint(details), fmt.Sprint(map[string]string{"roleArn": volume.Role,
			"volumeName": "data",
			"sizeInGiB":  "20", "deleteOnTermination": "false"}))
	}
	expect(t, "volumes", len(volumeIDs), 2)
}
