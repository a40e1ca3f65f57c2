package dynamo_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"berth/shared/dynamo"
)

// local is DynamoDB Local (com.amazonaws:DynamoDBLocal of Maven Central, kept in .cache). The first
// test that needs it starts it. It ends when its standard input is closed, so that it cannot
// outlive the test binary.
type local struct {
	stdin  io.Closer
	cmd    *exec.Cmd
	client *dynamodb.Client
	err    error
}

var server struct {
	once sync.Once
	local
}

func TestMain(m *testing.M) {
	// Each check of a property costs several calls here. Ask for more with -rapid.checks=1000.
	_ = flag.Set("rapid.checks", "30")
	flag.Parse()
	code := m.Run()
	if server.cmd != nil {
		_ = server.stdin.Close()
		_ = server.cmd.Wait()
	}
	if second.server != nil {
		_ = second.server.Stop()
	}
	os.Exit(code)
}

// open returns a state in a new table of DynamoDB Local. It skips the test if Java or Maven are
// missing.
func open(t testing.TB) *dynamo.State {
	t.Helper()
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("DynamoDB Local needs %s: %v", tool, err)
		}
	}
	server.once.Do(func() { server.err = server.start() })
	if server.err != nil {
		t.Fatalf("starting DynamoDB Local: %v", server.err)
	}
	return &dynamo.State{Client: server.client, Table: table(t, server.client)}
}

func (l *local) start() error {
	lib, err := filepath.Abs("../../.cache/dynamodb-local")
	if err != nil {
		return err
	}
	if jars, _ := filepath.Glob(lib + "/DynamoDBLocal-*.jar"); len(jars) == 0 {
		out, err := exec.Command("mvn", "-q", "-B", "-f", "testdata/pom.xml", "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+lib).CombinedOutput()
		if err != nil {
			return fmt.Errorf("fetching its jars: %w\n%s", err, out)
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	l.cmd = exec.Command("java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-Djava.library.path="+lib, "-cp", lib+"/*",
		"testdata/Loopback.java", "-inMemory", "-disableTelemetry", "-port", strconv.Itoa(port))
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.cmd.Start(); err != nil {
		return err
	}
	l.client = dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(fmt.Sprintf("http://127.0.0.1:%d", port)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	return awaitLine(stdout, "listening")
}

func awaitLine(r io.Reader, line string) error {
	var said strings.Builder
	for s := bufio.NewScanner(r); s.Scan(); {
		if s.Text() == line {
			go func() { _, _ = io.Copy(io.Discard, r) }()
			return nil
		}
		said.WriteString(s.Text() + "\n")
	}
	return fmt.Errorf("it ended:\n%s", said.String())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var tables atomic.Int64

func table(t testing.TB, client *dynamodb.Client) string {
	t.Helper()
	name := fmt.Sprintf("state-%d", tables.Add(1))
	_, err := client.CreateTable(context.Background(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	})
	if err != nil {
		t.Fatalf("creating table: %v", err)
	}
	t.Cleanup(func() {
		_, _ = client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name})
	})
	return name
}

func attributeNames(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: pk},
		"sk": &types.AttributeValueMemberS{Value: sk}}
}
