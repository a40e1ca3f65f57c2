package servicemodel

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// fetched returns botocore's models, or skips the test where they are not fetched.
func fetched(t *testing.T) *Models {
	t.Helper()
	m, err := Load("../..")
	if errors.Is(err, ErrNotFetched) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What botocore would stumble over is found, in requests that were carried out and in all answers.
func TestCheckExchange(t *testing.T) {
	m := fetched(t)
	describe := func(body, answer string) Exchange {
		return Exchange{Method: http.MethodPost, Path: "/", Target: ecsTarget + "DescribeTasks", Body: []byte(body),
			Status: 200, Answer: []byte(answer)}
	}
	failed := func(status int, answer string) Exchange {
		return Exchange{Method: http.MethodPost, Path: "/", Target: ecsTarget + "DescribeTasks", Status: status,
			Answer: []byte(answer)}
	}
	group := func(method, path, body, answer string) Exchange {
		return Exchange{Method: method, Path: path, Body: []byte(body), Status: 200, Answer: []byte(answer)}
	}
	const tasks = `{"tasks":["a"]}`
	const create = `{"nodegroupName":"n","subnets":["s"],"nodeRole":"r"}`
	for name, c := range map[string]struct {
		exchange Exchange
		has      string // empty if nothing is wrong
	}{
		"Right":    {describe(tasks, `{"tasks":[{"createdAt":1.5,"version":3,"tags":[]}],"failures":[]}`), ""},
		"Null":     {describe(`{"tasks":["a"],"cluster":null}`, `{}`), ""},
		"Required": {describe(`{}`, `{}`), "tasks is required"},
		"Unknown":  {describe(`{"tasks":["a"],"x":1}`, `{}`), "x is not in the model"},
		"Type": {describe(tasks, `{"tasks":[{"taskArn":1}]}`),
			".tasks[0].taskArn: json.Number instead of text"},
		"Time":      {describe(tasks, `{"tasks":[{"createdAt":"2026-11-04"}]}`), "instead of a number"},
		"Whole":     {describe(tasks, `{"tasks":[{"version":1.5}]}`), "no whole number"},
		"List":      {describe(tasks, `{"tasks":{}}`), "instead of a list"},
		"Structure": {describe(tasks, `{"tasks":["a"]}`), "instead of a structure"},
		"Boolean":   {describe(tasks, `{"tasks":[{"enableExecuteCommand":"yes"}]}`), "instead of a boolean"},
		"Enum":      {describe(tasks, `{"tasks":[{"launchType":"MOON"}]}`), `"MOON" is none of`},
		"NoJSON":    {describe(tasks, `<a/>`), "no JSON"},
		"Error":     {failed(400, `{"__type":"ClusterNotFoundException","message":"Cluster not found."}`), ""},
		"ErrorCode": {failed(400, `{"__type":"NoSuchException","message":"m"}`),
			"NoSuchException is not in the model"},
		"ErrorOfAnother": {failed(400, `{"__type":"ServiceNotFoundException","message":"m"}`),
			"ServiceNotFoundException is none of DescribeTasks"},
		"Unsupported": {failed(400, `{"__type":"UnsupportedFeatureException","message":"m"}`), ""},
		"TagsError": {Exchange{Method: "GET", Path: "/tags/arn%3Aaws", Status: 400,
			ErrorType: "InvalidParameterException"}, "InvalidParameterException is none of ListTagsForResource"},
		"ErrorMessage":  {failed(400, `{"__type":"ClientException"}`), "no message"},
		"OwnOperation":  {Exchange{Path: "/", Target: "Berth_20261121.X", Status: 200, Answer: []byte(`{"x":1}`)}, ""},
		"Group":         {group("POST", "/clusters/c/node-groups", create, `{"nodegroup":{"status":"ACTIVE"}}`), ""},
		"GroupRequired": {group("POST", "/clusters/c/node-groups", `{}`, `{}`), "nodegroupName is required"},
		"GroupOwnMember": {group("POST", "/clusters/c/node-groups/n/update-version", `{"forceProtected":true}`, `{}`),
			""},
		"GroupPath": {group("PUT", "/clusters/c/node-groups", "", `{}`), "no operation of the model"},
		"GroupTags": {group("GET", "/tags/arn:aws:eks:x:1:nodegroup/c/n/i", "", `{"tags":{"a":"b"}}`), ""},
		"GroupTagTypes": {group("GET", "/tags/arn%3Aaws", "", `{"tags":{"a":1}}`),
			".tags.a: json.Number instead of text"},
		"Query": {Exchange{Method: "GET", Path: "/clusters", Query: url.Values{"x": {"1"}}, Status: 200,
			Answer: []byte(`{}`)},
			"query's x"},
		"Status": {Exchange{Method: "GET", Path: "/clusters/c", Status: 400, ErrorType: "ResourceNotFoundException"},
			"another HTTP status"},
	} {
		problems := m.CheckExchange(c.exchange)
		found := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.has) })
		if c.has == "" && len(problems) > 0 || c.has != "" && !found {
			t.Errorf("%s: %q, want %q", name, problems, c.has)
		}
	}
}

// A server closes a body when the answer begins. What is behind the check can read it even then,
// without models too.
func TestCheckKeepsBodies(t *testing.T) {
	var read []byte
	var err error
	server := httptest.NewServer((*Models)(nil).Check(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		read, err = io.ReadAll(r.Body)
	})))
	answer, sent := http.Post(server.URL, "text/plain", strings.NewReader("body"))
	if sent != nil {
		server.Close()
		t.Fatal(sent)
	}
	answer.Body.Close()
	server.Close() // waits for the handler
	if string(read) != "body" || err != nil {
		t.Errorf("read %q, %v", read, err)
	}
}
