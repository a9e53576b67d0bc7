// SPDX-License-Identifier: GPL-2.0

// program START END MAIN FIRST: prints the frames by Go's runtime for each address of its code from
// START to END. MAIN is the address of main.main; all are hexadecimal addresses of the file. FIRST
// is the name of the first function, for which the runtime has no name. Prints a line where the
// frames change: the address, and the frames, innermost first, as NAME|FILE:LINE|START_LINE, with
// tabs between them.
//
// Without arguments it only runs its functions: a collection of constructs that Go compiles specially.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// From runtime/pprof, which links it to the runtime: expands inlined functions at the last address,
// and omits wrappers as in tracebacks.
//
//go:linkname expandFinalInlineFrame runtime/pprof.runtime_expandFinalInlineFrame
func expandFinalInlineFrame(stack []uintptr) []uintptr

var sink int

// What other files add to the work.
var extras []func() int

// Inlined calls in inlined calls.

func depth1(n int) int { sink += n; return n + 1 }
func depth2(n int) int { return depth1(n) * 2 }
func depth3(n int) int { return depth2(n) - depth1(n) }
func depth4(n int) int { return depth3(n) + 3 }
func depth5(n int) int { return depth4(n) ^ 5 }
func depth6(n int) int { return depth5(n) | 1 }

//go:noinline
func deep(n int) int {
	return depth6(n) +
		depth6(n+1)
}

// Generic functions and types.

type number interface {
	~int | ~int32 | ~float64
}

func add[T number](a, b T) T { return a + b }

//go:noinline
func sum[T number](values ...T) T {
	var total T
	for _, value := range values {
		total = add(total, value)
	}
	return total
}

type list[T any] struct {
	items []T
}

//go:noinline
func (l *list[T]) push(item T) { l.items = append(l.items, item) }

//go:noinline
func (l *list[T]) each(do func(T)) {
	for _, item := range l.items {
		do(item)
	}
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

//go:noinline
func makePair[K comparable, V any](key K, value V) func() pair[K, V] {
	return func() pair[K, V] {
		sink++
		return pair[K, V]{key, value}
	}
}

// Methods that need wrappers.

type shape interface {
	area() int
	scale(by int) int
}

type square struct{ side int }

func (s square) area() int         { return s.side * s.side }
func (s square) scale(by int) int  { return depth2(s.side) * by }
func (s *square) grow(by int)      { s.side += by }
func (s square) String() string    { return strconv.Itoa(s.side) }
func (s square) panics(reason int) { panic(reason) }

type framed struct {
	*square
	border int
}

type boxed struct {
	shape
	name string
}

//go:noinline
func measure(s shape) int { return s.area() + s.scale(2) }

// Closures, deferred calls and goroutines.

//go:noinline
func closures(n int) (result int) {
	twice := func(f func(int) int) func(int) int {
		return func(n int) int { return f(f(n)) }
	}
	defer func() { result += n }()
	defer fmt.Fprint(new(strings.Builder), n, result)
	return twice(func(n int) int {
		return depth3(n) + func() int { return sink }()
	})(n)
}

//go:noinline
func goroutines(s square) {
	done := make(chan bool)
	go s.grow(1)
	go func(by int) {
		defer close(done)
		sink += s.scale(by)
	}(3)
	<-done
}

func caught(s interface{ panics(int) }) (reason any) {
	defer func() { reason = recover() }()
	s.panics(1)
	return nil
}

func init() { sink = 1 }

func work() {
	s := square{2}
	f := framed{&s, 1}
	var numbers list[int]
	var words list[string]

	numbers.push(deep(3))
	words.push(f.String())
	numbers.each(func(n int) { sink += sum(n, n) })
	words.each(func(word string) { sink += len(word) })
	f.grow(int(sum(1.5, 2.5)))
	method := f.area
	sink += measure(f) + measure(boxed{f, "box"}) + measure(&boxed{s, "box"}) + closures(1) + method()
	sink += len(makePair("key", 1)().key) + makePair(1, s)().key
	for _, extra := range extras {
		sink += extra()
	}
	goroutines(s)
	caught(&f)
	caught(&s)
	fmt.Fprint(new(strings.Builder), f, words, makePair[int8, any](1, s)())
}

// What Go says of addresses.

// The kind of a function is in what runtime.Func stands for.
func kind(f *runtime.Func) uint8 {
	offset := uintptr(40)
	if strings.HasPrefix(runtime.Version(), "go1.18") || strings.HasPrefix(runtime.Version(), "go1.19") {
		offset = 36
	}
	return *(*uint8)(unsafe.Add(unsafe.Pointer(f), offset))
}

func wrapperKind() uint8 {
	return kind(runtime.FuncForPC(reflect.ValueOf((*framed).area).Pointer()))
}

func startLine(frame runtime.Frame) int64 {
	// Not exported, and not there before Go 1.20.
	if field := reflect.ValueOf(frame).FieldByName("startLine"); field.IsValid() {
		return field.Int()
	}
	return 0
}

func describe(pc uintptr, wrapper uint8) string {
	var text strings.Builder
	stack := append(expandFinalInlineFrame([]uintptr{pc + 1}), 0)
	frames := runtime.CallersFrames(stack)
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if frame.PC == 0 || frame.Func != nil && kind(frame.Func) == wrapper {
			continue
		}
		fmt.Fprintf(&text, "\t%s|%s:%d|%d", frame.Function, frame.File, frame.Line, startLine(frame))
	}
	return text.String()
}

// What takes a return address looks for its function before it subtracts 1, and finds the next one if
// pc is the last of its function. Nothing is inlined there, if a new line begins with it.
func describeLast(pc uintptr, wrapper uint8) string {
	before, last := runtime.FuncForPC(pc-1), runtime.FuncForPC(pc)
	if last == nil {
		return ""
	}
	file, line := last.FileLine(pc)
	if before.Entry() != last.Entry() { // one byte in all: a mark, no function
		return fmt.Sprintf("\t%s|%s:%d|0", last.Name(), file, line)
	}
	fileBefore, lineBefore := before.FileLine(pc - 1)
	text := describe(pc-1, wrapper)
	if text == "" || last.Name() == before.Name() && file == fileBefore && line == lineBefore {
		return text
	}
	return fmt.Sprintf("\t%s|%s:%d|%s", last.Name(), file, line, text[strings.LastIndex(text, "|")+1:])
}

func address(argument string) uintptr {
	number, err := strconv.ParseUint(argument, 16, 64)
	if err != nil {
		panic(err)
	}
	return uintptr(number)
}

func main() {
	work()
	if len(os.Args) != 5 {
		return
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	start, end := address(os.Args[1]), address(os.Args[2])
	bias := reflect.ValueOf(main).Pointer() - address(os.Args[3])
	wrapper := wrapperKind()
	last := ""
	for pc := start; pc < end; pc++ {
		text := ""
		next := runtime.FuncForPC(pc + bias + 1)
		if next == nil || next.Entry() == pc+bias+1 {
			text = describeLast(pc+bias, wrapper)
		} else {
			text = describe(pc+bias, wrapper)
		}
		if text != last {
			fmt.Fprintf(out, "%x%s\n", pc, strings.ReplaceAll(text, "\t|", "\t"+os.Args[4]+"|"))
			last = text
		}
	}
}
