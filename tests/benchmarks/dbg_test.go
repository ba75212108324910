package benchmarks
import ("testing";"fmt";"os"; "github.com/stoatdb/stoat/internal/commit")
func TestMain(m *testing.M) { m.Run(); for i := range commit.Dbg { fmt.Fprintln(os.Stderr, i, commit.Dbg[i].Load()) } }
