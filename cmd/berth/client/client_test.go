package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/wire/access"
	"berth/shared/wire/transport"
)

// setCredentials makes these the only AWS settings of the process.
func setCredentials(t *testing.T, id, secret string) {
	t.Helper()
	for name, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": id, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_REGION": "eu-west-1",
		"AWS_DEFAULT_REGION": "",
		"AWS_ENDPOINT_URL":   "", "AWS_ENDPOINT_URL_ECS": "", "BERTH_STACK": "", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, v)
	}
}

// An endpoint of the environment that is none is refused by the name of its variable: ECS's own counts first.
func TestWrongEndpointOfTheEnvironment(t *testing.T) {
	setCredentials(t, "", "")
	for _, variable := range []string{"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_ECS"} {
		t.Setenv(variable, "localhost:5252")
		_, err := FindTarget(t.Context(), Endpoint{})
		if err == nil || !strings.HasPrefix(err.Error(), variable+` is "localhost:5252", expected a URL`) {
			t.Errorf("%s: %v", variable, err)
		}
		if _, err := FindTarget(t.Context(), Endpoint{Endpoint: DefaultEndpoint}); err != nil {
			t.Errorf("beside --endpoint: %v", err)
		}
	}
}

// Requests are signed wherever credentials are: for lambda to a function URL, else for the API.
func TestRequestsAreSigned(t *testing.T) {
	v := access.NewVerifier([]access.Credential{{AccessKeyID: "AKIAANN", SecretAccessKey: "secret", Principal: "ann"}},
		time.Now)
	var want string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := v.Verify(r, access.Scope{Service: want})
		if want == "" && r.Header.Get("Authorization") == "" {
			err = nil
		}
		if err != nil {
			t.Errorf("%s: %v", r.URL, err)
		}
		transport.WriteAnswer(w, contentType, http.StatusOK, []byte(`{}`))
	}))
	defer server.Close()
	for _, c := range []struct{ key, path, ecs, eks string }{
		{"AKIAANN", "", "ecs", "eks"}, {"AKIAANN", "/_aws/lambda-url/id/", "lambda", "lambda"}, {"", "", "", ""},
	} {
		secret := "secret"
		if c.key == "" {
			secret = ""
		}
		setCredentials(t, c.key, secret)
		client, err := New(t.Context(), Endpoint{Endpoint: server.URL + c.path})
		if err != nil {
			t.Fatal(err)
		}
		want = c.ecs
		if err := client.CallECS(t.Context(), "ListClusters", struct{}{}, nil); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if err := client.CallBerth(t.Context(), "ListRows", struct{}{}, nil); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		want = c.eks
		if err := client.CallEKS(t.Context(), "CreateNodegroup", "clusters/a/node-groups", struct{}{},
			nil); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// An API on this machine that wants a signature says so; the client adds why it had none.
func TestMissingCredentialsAreExplained(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		transport.WriteAnswer(w, contentType, http.StatusBadRequest,
			[]byte(`{"__type":"MissingAuthenticationTokenException","message":"Missing Authentication Token"}`))
	}))
	defer server.Close()
	setCredentials(t, "", "")
	client, err := New(t.Context(), Endpoint{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	err = client.CallECS(t.Context(), "ListClusters", struct{}{}, nil)
	if cluster.ErrorCode(err) != cluster.CodeMissingToken || !strings.Contains(err.Error(), "set AWS_PROFILE") {
		t.Errorf("got %v", err)
	}
}

// A function URL that refuses the credentials is explained with the policy that they need.
func TestForbiddenIsExplained(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"Message":"Forbidden"}`)
	}))
	defer server.Close()
	setCredentials(t, "AKIAANN", "secret")
	client, err := New(t.Context(), Endpoint{Endpoint: server.URL + "/lambda-url/id"})
	if err != nil {
		t.Fatal(err)
	}
	err = client.CallECS(t.Context(), "ListClusters", struct{}{}, nil)
	for _, part := range []string{"AccessDeniedException", "CallerPolicyArn", "lambda:InvokeFunctionUrl"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q", err, part)
		}
	}
	client.target.PolicyARN = "arn:aws:iam::1:policy/p"
	err = client.CallECS(t.Context(), "ListClusters", struct{}{}, nil)
	if err == nil || !strings.Contains(err.Error(), "the policy arn:aws:iam::1:policy/p,") {
		t.Errorf("got %v, want the policy's ARN", err)
	}
}

const functionURL = "https://abc123.lambda-url.us-west-2.on.aws/"

// cloudFormation plays DescribeStacks for the stacks berth, half and other.
func cloudFormation(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	fail := func(status int, code, message string) {
		w.WriteHeader(status)
		fmt.Fprintf(w,
			`<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`,
			code, message)
	}
	outputs := map[string]string{"half": "", "other": "<member><OutputKey>ApiUrl</OutputKey><OutputValue>" +
		"https://api.example.com/</OutputValue></member>",
		"berth": "<member><OutputKey>ApiUrl</OutputKey><OutputValue>" + functionURL + "</OutputValue></member>" +
			"<member><OutputKey>CallerPolicyArn</OutputKey><OutputValue>arn:p</OutputValue></member>"}
	name := r.Form.Get("StackName")
	list, known := outputs[name]
	switch {
	case name == "secret":
		fail(http.StatusForbidden, "AccessDenied",
			"User ann is not authorized to perform: cloudformation:DescribeStacks")
	case name == "broken":
		fail(http.StatusBadRequest, "ValidationError", "something else")
	case !known:
		fail(http.StatusBadRequest, "ValidationError", "Stack with id "+name+" does not exist")
	default:
		fmt.Fprintf(w, `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>%s</StackName>`+
			`<CreationTime>2026-11-22T12:00:00Z</CreationTime><StackStatus>ROLLBACK_COMPLETE</StackStatus>`+
			`<Outputs>%s</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`, name, list)
	}
}

func TestFindTarget(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(cloudFormation))
	defer server.Close()
	setCredentials(t, "AKIAANN", "secret")
	t.Setenv("AWS_ENDPOINT_URL_CLOUDFORMATION", server.URL)
	t.Run("ByStack", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL_ECS", "http://127.0.0.1:1") // gives way to a stack
		got, err := FindTarget(t.Context(), Endpoint{Stack: "berth"})
		if err != nil {
			t.Fatal(err)
		}
		// The emulator's address, with the function URL's Host header and Region.
		if got.URL.String() != server.URL+"/" || got.Host != "abc123.lambda-url.us-west-2.on.aws" ||
			!got.IsFunctionURL ||
			got.Region != "us-west-2" || got.PolicyARN != "arn:p" {
			t.Errorf("got %+v at %s", got, got.URL)
		}
	})
	t.Run("ByEnvironment", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
		t.Setenv("BERTH_STACK", "berth")
		got, err := FindTarget(t.Context(), Endpoint{})
		if err != nil || got.PolicyARN != "arn:p" {
			t.Errorf("got %+v, %v, want the stack's", got, err)
		}
		if got, err = FindTarget(t.Context(), Endpoint{Endpoint: DefaultEndpoint}); err != nil ||
			got.Host != "127.0.0.1:5252" {
			t.Errorf("got %+v, %v, want the flag's", got, err)
		}
		t.Setenv("BERTH_STACK", "")
		if got, err = FindTarget(t.Context(), Endpoint{}); err != nil || got.Host != "127.0.0.1:1" {
			t.Errorf("got %+v, %v, want the variable's", got, err)
		}
	})
	t.Run("ByURL", func(t *testing.T) {
		got, err := FindTarget(t.Context(), Endpoint{Endpoint: functionURL})
		if err != nil || got.URL.String() != functionURL || !got.IsFunctionURL || got.Region != "us-west-2" ||
			got.IsLocal() {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	for name, c := range map[string]struct {
		endpoint Endpoint
		key      string
		want     string
	}{
		"NoSuchStack":   {Endpoint{Stack: "none"}, "AKIAANN", "there is no such stack in eu-west-1"},
		"OtherRegion":   {Endpoint{Stack: "none", Region: "us-east-2"}, "AKIAANN", "no such stack in us-east-2"},
		"NoOutput":      {Endpoint{Stack: "half"}, "AKIAANN", "which is ROLLBACK_COMPLETE, has no output ApiUrl"},
		"NoFunctionURL": {Endpoint{Stack: "other"}, "AKIAANN", "expected a function URL"},
		"Refused":       {Endpoint{Stack: "secret"}, "AKIAANN", "allow cloudformation:DescribeStacks"},
		"OtherError":    {Endpoint{Stack: "broken"}, "AKIAANN", "ValidationError: something else"},
		"Both": {Endpoint{Stack: "berth", Endpoint: functionURL}, "AKIAANN",
			"expected none beside --stack berth"},
		"NoCredentials": {Endpoint{Stack: "berth"}, "", "finding AWS credentials"},
		"NoneForAWS":    {Endpoint{Endpoint: functionURL}, "", "aws sso login"},
		"NoSuchProfile": {Endpoint{Endpoint: "http://127.0.0.1:1", Profile: "none"}, "", "none"},
		"NoURL":         {Endpoint{Endpoint: "here"}, "AKIAANN", "expected a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AWS_ACCESS_KEY_ID", c.key)
			if c.key == "" {
				t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			}
			if _, err := FindTarget(t.Context(), c.endpoint); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("NoRegion", func(t *testing.T) {
		t.Setenv("AWS_REGION", "")
		t.Setenv("AWS_DEFAULT_REGION", "")
		if _, err := FindTarget(t.Context(), Endpoint{Stack: "berth"}); !errors.Is(err, errNoRegion) {
			t.Errorf("got %v", err)
		}
	})
}

// A profile's credentials and Region are used, also before those of the environment.
func TestProfile(t *testing.T) {
	setCredentials(t, "AKIAANN", "secret")
	file := filepath.Join(t.TempDir(), "config")
	text := "[profile prod]\naws_access_key_id = AKIAPROD\naws_secret_access_key = s\nregion = ap-south-1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	t.Setenv("AWS_REGION", "")
	got, err := FindTarget(t.Context(), Endpoint{Endpoint: "http://127.0.0.1:1", Profile: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := got.Credentials(t.Context())
	if err != nil || keys.AccessKeyID != "AKIAPROD" || got.Region != "ap-south-1" {
		t.Errorf("got %s in %s, %v", keys.AccessKeyID, got.Region, err)
	}
	if got, err = FindTarget(t.Context(), Endpoint{Endpoint: functionURL, Profile: "prod"}); err != nil ||
		got.Region != "us-west-2" {
		t.Errorf("%+v, %v: the Region of the URL counts", got, err)
	}
}

// The code of an error may be in the body of either API, or in the header alone.
func TestErrorCodes(t *testing.T) {
	for _, answer := range []struct{ header, body string }{
		{"", `{"__type":"InvalidParameterException","message":"no"}`},
		{"", `{"code":"InvalidParameterException","message":"no"}`},
		{"InvalidParameterException", `{"message":"no"}`},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-ErrorType", answer.header)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, answer.body)
		}))
		defer server.Close()
		setCredentials(t, "AKIAANN", "secret")
		client, err := New(t.Context(), Endpoint{Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		err = client.CallECS(t.Context(), "ListClusters", struct{}{}, nil)
		if cluster.ErrorCode(err) != cluster.CodeInvalidParameter {
			t.Errorf("%+v: got %v", answer, err)
		}
	}
}
