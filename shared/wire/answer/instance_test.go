package answer_test

import (
	"strings"
	"testing"

	"berth/shared/wire/answer"
)

// An instance gets what ECS always sends, wherever the answer has it. An answer that lacks nothing
// stays the same bytes.
func TestInstances(t *testing.T) {
	const whole = `{"version":4,"agentConnected":true,"runningTasksCount":1,"pendingTasksCount":2,"attachments":[],
		"attributes":[{"name":"a"}],"registeredResources":[{"name":"CPU"}],"remainingResources":[],"tags":[],"other":{}}`
	const added = `"version":0,"agentConnected":false,"runningTasksCount":0,"pendingTasksCount":0,"attachments":[],
		"attributes":[],"registeredResources":[],"remainingResources":[],"tags":[]`
	const inText = `"text":"\\\"\"tags\":[]"`
	for name, c := range map[string]struct{ body, want string }{
		"None":         {`{"failures":[]}`, `{"failures":[]}`},
		"Whole":        {`{"containerInstances":[` + whole + `]}`, `{"containerInstances":[` + whole + `]}`},
		"WholeAlone":   {`{"containerInstance":` + whole + `}`, `{"containerInstance":` + whole + `}`},
		"Least":        {`{"containerInstances":[{"status":"ACTIVE"}]}`, `{"containerInstances":[{"status":"ACTIVE",` + added + `}]}`},
		"LeastAlone":   {`{"containerInstance":{}}`, `{"containerInstance":{` + added + `}}`},
		"OneOfTwo":     {`{"containerInstances":[` + whole + `,{}]}`, `{"containerInstances":[` + whole + `,{` + added + `}]}`},
		"AloneAndList": {`{"containerInstances":[` + whole + `],"containerInstance":{}}`, `{"containerInstances":[` + whole + `],"containerInstance":{` + added + `}}`},
		"SpacesBeforeNull": {`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, `"tags": null`, 1) + `]}`,
			`{"containerInstances":[` + whole + `]}`},
		"TwiceAndNotAtAll": {`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, `"version":4`, 1) + `]}`,
			`{"containerInstances":[` + whole + `]}`},
		"InAText": {`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, inText, 1) + `]}`,
			`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, inText+`,"tags":[]`, 1) + `]}`},
		"InAMember": {`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, `"more":{"tags":[]}`, 1) + `]}`,
			`{"containerInstances":[` + strings.Replace(whole, `"tags":[]`, `"more":{"tags":[]},"tags":[]`, 1) + `]}`},
		"Null": {`{"containerInstance":{"attributes":null,"version":null,"agentConnected":null}}`,
			`{"containerInstance":{` + added + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answer.Instances([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, string(got), c.want)
			if c.body == c.want && string(got) != c.body {
				t.Errorf("an answer that lacks nothing became %s", got)
			}
			if again, err := answer.Instances(got); err != nil || string(again) != string(got) {
				t.Errorf("completed again: %s, %v", again, err)
			}
		})
	}
	// Each member is missed by itself.
	for _, member := range []string{"version", "agentConnected", "runningTasksCount", "pendingTasksCount", "attachments",
		"attributes", "registeredResources", "remainingResources", "tags"} {
		body := edited(t, `{"containerInstances":[`+whole+`]}`, func(o answer.Object) {
			delete(o.Objects("containerInstances")[0], member)
		})
		got, err := answer.Instances([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		edited(t, string(got), func(o answer.Object) {
			if o.Objects("containerInstances")[0][member] == nil {
				t.Errorf("%s is missing in %s", member, got)
			}
		})
	}
	for _, body := range []string{"", "[]", "{", `{"containerInstances":[`, `{"a`, `{"a"`, `{"a\\`} {
		if out, err := answer.Instances([]byte(body)); err == nil {
			t.Errorf("%q became %s", body, out)
		}
	}
}
