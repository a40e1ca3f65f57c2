package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/shared/wire/ecsapi"
	"berth/tests/servicemodel"
)

// served are bodies with what an operation needs to be carried out, or what the members below
// others need to be looked at. Operations that are not here need nothing.
var served = map[string]string{
	"CreateCapacityProvider": `{"name":"p","autoScalingGroupProvider":{"autoScalingGroupArn":"arn:aws:autoscaling:` +
		`us-east-1:123456789012:autoScalingGroup:0:autoScalingGroupName/g"}}`,
	"CreateService":              `{"serviceName":"new","taskDefinition":"web","desiredCount":0}`,
	"CreateTaskSet":              `{"cluster":"default","service":"web","taskDefinition":"web"}`,
	"DeleteAttributes":           `{"attributes":[{"name":"a","targetId":"i"}]}`,
	"DeleteTaskSet":              `{"cluster":"default","service":"web","taskSet":"ecs-svc/1"}`,
	"DescribeContainerInstances": `{"containerInstances":["i"]}`,
	"DescribeServiceDeployments": `{"serviceDeploymentArns":["a"]}`,
	"DescribeServices":           `{"services":["web"]}`,
	"DescribeTaskDefinition":     `{"taskDefinition":"web"}`,
	"DescribeTaskSets":           `{"cluster":"default","service":"web"}`,
	"DescribeTasks":              `{"tasks":["0123456789abcdef0123456789abcdef"]}`,
	"ListServiceDeployments":     `{"cluster":"default","service":"web"}`,
	"PutAttributes":              `{"attributes":[{"name":"a","targetId":"i"}]}`,
	"PutAccountSetting":          `{"name":"containerInsights","value":"enabled"}`,
	"PutAccountSettingDefault":   `{"name":"containerInsights","value":"enabled"}`,
	"RegisterContainerInstance":  `{"cluster":"default"}`,
	"RegisterTaskDefinition": `{"family":"new",` +
		`"containerDefinitions":[{"name":"web","image":"busybox","memory":64}]}`,
	"RunTask":   `{"taskDefinition":"web"}`,
	"StartTask": `{"taskDefinition":"web","containerInstances":["i"]}`,
	"StopServiceDeployment": `{"serviceDeploymentArn":"arn:aws:ecs:us-east-1:123456789012:service-deployment/default/` +
		`web/aaaaaaaaaaaaaaaaaaaaa"}`,
	"UpdateCapacityProvider":        `{"name":"p","autoScalingGroupProvider":{}}`,
	"UpdateCluster":                 `{"cluster":"default"}`,
	"UpdateClusterSettings":         `{"cluster":"default","settings":[]}`,
	"UpdateContainerInstancesState": `{"containerInstances":["i"]}`,
	"UpdateService":                 `{"service":"web"}`,
	"UpdateTaskProtection":          `{"cluster":"default","tasks":["0123456789abcdef0123456789abcdef"]}`,
	"UpdateTaskSet":                 `{"cluster":"default","service":"web","taskSet":"ecs-svc/1"}`,
}

// besides are the members that must be there, too, if any member below a path is given.
var besides = map[string]string{
	"attributes.0":                                        `{"name":"a"}`,
	"containerDefinitions.0.dependsOn.0":                  `{"containerName":"web"}`,
	"containerDefinitions.0.environmentFiles.0":           `{"value":"arn:aws:s3:::b/f.env"}`,
	"containerDefinitions.0.portMappings.0":               `{"containerPort":80}`,
	"networkConfiguration.awsvpcConfiguration":            `{"subnets":["subnet-1"]}`,
	"overrides.containerOverrides.0":                      `{"name":"web"}`,
	"overrides.containerOverrides.0.environmentFiles.0":   `{"value":"arn:aws:s3:::b/f.env"}`,
	"overrides.containerOverrides.0.resourceRequirements": `[{"value":"1"}]`,
	"volumeConfigurations.0":                              `{"name":"v"}`,
	"volumeConfigurations.0.managedEBSVolume": `{"roleArn":"arn:aws:iam::123456789012:role/volumes",` +
		`"sizeInGiB":1}`,
	"volumeConfigurations.0.managedEBSVolume.tagSpecifications.0": `{"resourceType":"volume"}`,
}

// An enumeration is a member of an operation's input that has a few known values, however deep.
// Items of lists have the name "0".
type enumeration struct {
	operation string
	path      []string
}

// body returns a request in which the member has a value that it cannot have.
func (e enumeration) body(t *testing.T) string {
	t.Helper()
	parse := func(text string) (v any) {
		if text != "" {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(text, err)
			}
		}
		return v
	}
	body := parse(served[e.operation])
	for n := range e.path {
		if text := besides[strings.Join(e.path[:n], ".")]; text != "" {
			body = put(body, e.path[:n], parse(text))
		}
	}
	text, err := json.Marshal(put(body, e.path, "no-such-value"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// isRefusedAnyway reports whether Berth refuses the member, or one that it belongs to, with any
// value.
func (e enumeration) isRefusedAnyway() bool {
	name := strings.ReplaceAll(strings.Join(e.path, "."), ".0", "")
	return slices.ContainsFunc(ecsapi.RefusedMembers()[e.operation], func(r ecsapi.Refusal) bool {
		return r.Values == "" && strings.HasPrefix(name+".", r.Member+".")
	})
}

// enumerations returns those of all operations that are served.
func enumerations(m *servicemodel.Model) (all []enumeration) {
	for _, op := range slices.Sorted(maps.Keys(m.Operations)) {
		if ecsapi.RefusedOperations()[op] != "" {
			continue
		}
		var add func(shape string, path []string)
		add = func(shape string, path []string) {
			s := m.Shapes[shape]
			switch {
			case len(s.Enum) > 0:
				all = append(all, enumeration{op, slices.Clone(path)})
			case s.Type == "list":
				add(s.Member.Shape, append(path, "0"))
			case s.Type == "structure":
				for _, name := range slices.Sorted(maps.Keys(s.Members)) {
					add(s.Members[name].Shape, append(path, name))
				}
			}
		}
		add(m.Operations[op].Input.Shape, nil)
	}
	return all
}

// put returns a value of JSON with something at a path. What is missing on the way is made.
func put(in any, path []string, v any) any {
	if len(path) == 0 {
		return v
	}
	if path[0] == "0" {
		list, _ := in.([]any)
		if len(list) == 0 {
			list = []any{nil}
		}
		list[0] = put(list[0], path[1:], v)
		return list
	}
	object, _ := in.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[path[0]] = put(object[path[0]], path[1:], v)
	return object
}

// A value that a member cannot have is refused, wherever the member is: nothing is accepted and
// kept that has no meaning. The answer names the member or the value.
func TestUnknownValuesAreRefused(t *testing.T) {
	models := servicemodel.ForTests(t, root)
	if models == nil {
		t.Skip(servicemodel.ErrNotFetched)
	}
	w := &inputTarget{virtual: newVirtual(t)}
	w.prepare(t)
	w.api = w.Server // unchecked: the values are wrong on purpose
	before, checked := w.fullState(t), 0
	for _, e := range enumerations(models.ECS) {
		if e.isRefusedAnyway() {
			continue
		}
		status, code, message := w.sendOperation(t, e.operation, e.body(t))
		checked++
		name := strings.ReplaceAll(strings.Join(e.path, "."), ".0", "")
		last := name[strings.LastIndex(name, ".")+1:]
		plain := strings.ToLower(strings.ReplaceAll(message, " ", ""))
		named := strings.Contains(plain, strings.ToLower(last)) || strings.Contains(plain, "no-such-value") ||
			code == "UnsupportedFeatureException" && strings.HasPrefix(message, e.path[0])
		if status != badRequest || !named {
			t.Errorf("%s %s: %d %s: %.200q, want it refused by name", e.operation, name, status, code, message)
		}
	}
	if after := w.fullState(t); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	if checked < 60 {
		t.Errorf("only %d members were checked", checked)
	}
}
