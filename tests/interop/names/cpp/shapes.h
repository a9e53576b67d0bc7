/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SHAPES_H
#define SHAPES_H

#include "mark.h"

namespace shapes
{

INLINE int square(int x)
{
	MARK("square");
	return x * x;
}

template <class T> INLINE T twice(T x)
{
	MARK("twice");
	return square(x) + x;
}

/* Units that use it have it, each; the linker keeps one. */
template <class T, int N> NOINLINE T scaled(T x)
{
	MARK("scaled");
	return x * N + twice(1);
}

class Counter
{
public:
	NOINLINE explicit Counter(int start);
	NOINLINE virtual ~Counter();
	NOINLINE virtual void add(int x);
	NOINLINE int operator()(int x) const;

	template <class F> NOINLINE int each(int n, F f)
	{
		for (int i = 0; i < n; i++) {
			MARK("each");
			add(f(i));
		}
		return total;
	}

	struct Limits {
		NOINLINE static int clamp(int x);
	};

protected:
	int total;
};

template <class T> struct Box {
	T value;
	INLINE T get() const
	{
		MARK("get");
		return value;
	}
	NOINLINE Box operator<<(const Box &other) const
	{
		MARK("operator<<");
		return Box{value + other.get()};
	}
};

}

int other(int n);
extern "C" int plain(int n);

#endif
