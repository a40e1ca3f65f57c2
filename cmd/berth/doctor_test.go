package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"berth/cmd/berth/doctor"
)

// accountOf is an account whose CloudFormation answers as given, and that refuses everything else.
func accountOf(t *testing.T, answer func(action string) (status int, body string)) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := answer(r.FormValue("Action"))
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	for name, v := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "AKIAANN",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_PROFILE": "", "BERTH_STACK": "",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, v)
	}
}

const refused = `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`

// A stack that does not exist, or may not be read, is an error that says what to do.
func TestDoctorNeedsTheStack(t *testing.T) {
	for body, want := range map[string]string{
		refused: "allow cloudformation:DescribeStacks",
		`<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id x does not exist</Message></Error>` +
			`</ErrorResponse>`: "there is no such stack in eu-west-1",
	} {
		accountOf(t, func(string) (int, string) { return http.StatusBadRequest, body })
		code, out, errs := berth("doctor", "--stack", "x")
		if code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("exit code %d, %q, %q, want 1 and %q", code, out, errs, want)
		}
	}
}

// A stack that has lost everything fails. Remedies have the flags by which the account was found.
func TestDoctorFindsWhatIsMissing(t *testing.T) {
	accountOf(t, func(action string) (int, string) {
		switch action {
		case "DescribeStacks":
			return http.StatusOK,
				`<R><DescribeStacksResult><Stacks><member><StackStatus>CREATE_FAILED</StackStatus><StackId>` +
					`arn:aws:cloudformation:us-west-2:123456789012:stack/x/1</StackId></member></Stacks></DescribeStacksResult></R>`
		case "ListStackResources":
			return http.StatusOK,
				`<R><ListStackResourcesResult><StackResourceSummaries><member><LogicalResourceId>Table` +
					`</LogicalResourceId><PhysicalResourceId>t</PhysicalResourceId><ResourceStatus>DELETE_FAILED</ResourceStatus>` +
					`</member></StackResourceSummaries></ListStackResourcesResult></R>`
		}
		return http.StatusForbidden, refused
	})
	code, out, errs := berth("doctor", "--stack", "x", "--region", "us-west-2")
	for _, want := range []string{"fail     stack: ", "- stack x: CREATE_FAILED\n",
		"- ApiFunction: the stack does not have it",
		"- Table: DELETE_FAILED", "aws cloudformation describe-stack-events --stack-name x --region us-west-2\n",
		"Stack x in us-west-2: ", "not checked: needs dynamodb:DescribeTable"} {
		if code != 1 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q, want 1 and %q in:\n%s", code, errs, want, out)
		}
	}
	code, out, _ = berth("doctor", "--stack", "x", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.Verdict != doctor.Fail ||
		len(r.Checks) != 15 || r.Count(doctor.Fail) == 0 {
		t.Errorf("exit code %d, %+v", code, r)
	}
}
