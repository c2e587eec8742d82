"""The settings of scenes: rows, attributes and signatures. Generated from proto/catalogue by `make catalogue`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Sequence

Method = Literal["auto", "ldi", "exact", "ebpi", "voxtree"]
Law = Literal["volume", "pressure"]
Allocation = Literal["optimal", "published", "per_pixel"]


class Row(NamedTuple):
    name: str
    type: str  # f64, flag, u32, u64, u32x3 or choice
    is_voxels: bool  # in the wire's table VoxelSettings
    may_be_zero: bool  # in a request
    least: float  # of what is not 0
    most: float
    expected: str
    choices: dict[str, int]


ROWS = (
    Row('method', 'choice', False, True, 0, 1, "auto, ldi, exact, ebpi, voxtree",
        {"auto": 3, "ldi": 1, "exact": 2, "ebpi": 4, "voxtree": 5}),
    Row('resolution', 'u32x3', False, False, 1, 4096, "1 to 4096", {}),
    Row('pixel_size', 'f64', False, True, 1e-30, 1e+30, "1e-30 to 1e+30, or 0 for none", {}),
    Row('stiffness', 'f64', False, True, 0, 1e+300, "0 to 1e+300, or 0 for no forces", {}),
    Row('law', 'choice', False, True, 0, 1, "volume, pressure", {"volume": 0, "pressure": 1}),
    Row('stiction_speed', 'f64', False, True, 1e-12, 1000000.0, "1e-12 to 1e+06, or 0 for 0.001", {}),
    Row('patches', 'flag', False, True, 0, 1, "true or false", {}),
    Row('tolerance', 'f64', False, True, 0, 1e+300,
        "a volume above 0, up to 1e300 m^3; the smallest depends on the bodies' extents, and a step that asks for less names it, or 0 for none",
        {}),
    Row('tolerance_rel', 'f64', False, True, 1e-06, 1, "a fraction of the volume from 1e-06 to 1, or 0 for none", {}),
    Row('strict', 'flag', False, True, 0, 1, "true or false", {}),
    Row('optimize_directions', 'flag', False, True, 0, 1, "true or false", {}),
    Row('allocation', 'choice', False, True, 0, 1, "optimal, published, per_pixel",
        {"optimal": 0, "published": 1, "per_pixel": 2}),
    Row('ray_budget', 'u64', False, True, 3, 268435456, "3, one for each view, to 268435456, or 0 for the default, 1048576", {}),
    Row('cell_size', 'f64', False, True, 1e-30, 1e+30, "1e-30 to 1e+30, or 0 for none", {}),
    Row('margin', 'f64', False, True, 0, 1e+30, "0 to 1e+30, or 0 for none", {}),
    Row('skip_unplaced', 'flag', False, True, 0, 1, "true or false", {}),
    Row('max_step_time', 'f64', False, False, 0, float('inf'), "a positive number", {}),
    Row('voxel_level', 'u32', True, True, 3, 8,
        "3 to 8, or 0 for one that suits each mesh: cubes about as large as its triangles, 5 to 7", {}),
    Row('level', 'u32', True, True, 0, 8, "1 to 8, or 0 for all levels", {}),
    Row('pair_budget', 'u64', True, True, 0, 9223372036854775807, "1 to 9223372036854775807, or 0 for no limit", {}),
    Row('max_points', 'u32', True, True, 0, 4096, "1 to 4096, or 0 for none, of voxtree 8", {}),
    Row('center_normals', 'flag', True, True, 0, 1, "true or false", {}),
    Row('plain_average', 'flag', True, True, 0, 1, "true or false", {}),
    Row('refine', 'flag', True, True, 0, 1, "true or false", {}),
)


class SceneSettings:
    """The settings in force, and the call that changes them: for Scene."""

    __slots__ = ()

    def _setting(self, name: str) -> Any:
        raise NotImplementedError

    def _configure(self, given: dict[str, Any], timeout: float | None) -> None:
        raise NotImplementedError

    @property
    def method(self) -> Method:
        """One of the server's methods, or auto: exact, but ldi together with a resolution or a pixel size, and ebpi together
        with a tolerance. A change of the method drops the settings that the new one does not take, but is refused beside
        patches, which stay."""
        value: Method = self._setting('method')
        return value

    @property
    def resolution(self) -> tuple[int, int, int] | None:
        """Ray samples across a contact's window along x, y, z (Faure 2008). 1 to 4096. For ldi."""
        value: tuple[int, int, int] | None = self._setting('resolution')
        return value

    @property
    def pixel_size(self) -> float:
        """Pitch of a lattice of rays that is fixed in the world (Allard 2010), instead of a resolution. 1e-30 to 1e+30 m; 0:
        none. For ldi."""
        value: float = self._setting('pixel_size')
        return value

    @property
    def stiffness(self) -> float:
        """Factor k of the penalty energy E = k V^2 / 2; scales forces. 0 to 1e+300 N/m^5; 0: no forces."""
        value: float = self._setting('stiffness')
        return value

    @property
    def law(self) -> Law:
        """What forces follow from: the volume of each contact, or a pressure that bodies' materials give (modulus, friction,
        dissipation). For exact. With the law pressure auto runs exact, and steps have wrenches."""
        value: Law = self._setting('law')
        return value

    @property
    def stiction_speed(self) -> float:
        """Law pressure: the sliding speed at which friction reaches 0.71 of its limit; below it surfaces stick, but for a
        creep of some of it. 1e-12 to 1e+06 m/s; 0: 0.001. For exact."""
        value: float = self._setting('stiction_speed')
        return value

    @property
    def patches(self) -> bool:
        """Each connected piece of a pair's intersection is a contact, the largest first; they add up to the pair's. For exact.
        With patches auto runs exact; a sampling and patches exclude each other."""
        value: bool = self._setting('patches')
        return value

    @property
    def tolerance(self) -> float:
        """Bound of the error of each contact's volume to reach; a step may name its own. 0 to 1e+300 m^3; 0: none. For
        ebpi."""
        value: float = self._setting('tolerance')
        return value

    @property
    def tolerance_rel(self) -> float:
        """The same as a fraction of the volume; of both the larger counts. 1e-06 to 1; 0: none. For ebpi."""
        value: float = self._setting('tolerance_rel')
        return value

    @property
    def strict(self) -> bool:
        """Whether the bound is proven, or else the published one, which a contact is computed by unless its views refute it.
        For ebpi."""
        value: bool = self._setting('strict')
        return value

    @property
    def optimize_directions(self) -> bool:
        """Each pair's views lie along axes that few of its faces are parallel to (Wang 2012, section 4.4), instead of the
        world's. For ebpi. volumes and error_bounds are then of those views; all else is in world axes. The axes are found from
        the faces in each step anew, so answers do not depend on earlier steps."""
        value: bool = self._setting('optimize_directions')
        return value

    @property
    def allocation(self) -> Allocation:
        """Which parts of the views get more rays. For ebpi."""
        value: Allocation = self._setting('allocation')
        return value

    @property
    def ray_budget(self) -> int:
        """Rays that a pair may cast, those of refined tiles included. 3 to 268435456; 0: the default, 1048576. For ebpi. A ray
        takes some 200 bytes of working memory, and 4 more for each face over its tile."""
        value: int = self._setting('ray_budget')
        return value

    @property
    def cell_size(self) -> float:
        """Contacts are also given in cells: cubes of this size, fixed in the world, one of whose corners is the origin (Allard
        2010, section 5). 1e-30 to 1e+30 m; 0: none. For ldi. With a cell size auto runs ldi."""
        value: float = self._setting('cell_size')
        return value

    @property
    def margin(self) -> float:
        """Pairs of bodies without a contact that are closer than this are listed with their distance, as separations. 0 to
        1e+30 m; 0: none."""
        value: float = self._setting('margin')
        return value

    @property
    def skip_unplaced(self) -> bool:
        """Pairs of bodies that are too far apart in size or place for the method's coordinates are left out, with a warning
        for each body, instead of failing the step. For ldi, exact, ebpi."""
        value: bool = self._setting('skip_unplaced')
        return value

    @property
    def max_step_time(self) -> float:
        """A step that takes longer is cancelled with TIME_LIMIT, and has changed nothing; lowered to the server's limit where
        it is above it. Above 0 s."""
        value: float = self._setting('max_step_time')
        return value

    @property
    def voxel_level(self) -> int:
        """Finest level of the meshes' voxel trees, which are made when a body is added. 3 to 8; 0: one that suits each mesh:
        cubes about as large as its triangles, 5 to 7. For voxtree. Level l divides the cube around a mesh into 2^l cubes along
        each axis."""
        value: int = self._setting('voxel_level')
        return value

    @property
    def level(self) -> int:
        """No tree is followed below this level, which is at most voxel_level. 1 to 8; 0: all levels. For voxtree."""
        value: int = self._setting('level')
        return value

    @property
    def pair_budget(self) -> int:
        """Pairs of a cube and the cubes that it may meet which a step may compare, shared by its pairs of bodies, the deepest
        overlaps first. 1 to 9223372036854775807; 0: no limit. For voxtree."""
        value: int = self._setting('pair_budget')
        return value

    @property
    def max_points(self) -> int:
        """Points of each contact, by every method: the ones that matter most. 1 to 4096; 0: none, of voxtree 8. With points a
        step wants the frame and friction weights as well."""
        value: int = self._setting('max_points')
        return value

    @property
    def center_normals(self) -> bool:
        """Points' normals along the line of the cubes' centres (Dingliana 2005, section 3.2), instead of from the gradients of
        occupancies. For voxtree."""
        value: bool = self._setting('center_normals')
        return value

    @property
    def plain_average(self) -> bool:
        """Points are plain means (Dingliana 2005, equations 7 and 8), instead of weighted with probabilities. For voxtree."""
        value: bool = self._setting('plain_average')
        return value

    @property
    def refine(self) -> bool:
        """After the trees, pairs in contact are computed by exact, the largest volumes first: all of them, or with a time
        budget those expected to fit the time left. For voxtree."""
        value: bool = self._setting('refine')
        return value

    def configure(self, *, method: Method | None = None, resolution: int | Sequence[int] | None = None,
                  pixel_size: float | None = None, stiffness: float | None = None, law: Law | None = None,
                  stiction_speed: float | None = None, patches: bool | None = None, tolerance: float | None = None,
                  tolerance_rel: float | None = None, strict: bool | None = None, optimize_directions: bool | None = None,
                  allocation: Allocation | None = None, ray_budget: int | None = None, cell_size: float | None = None,
                  margin: float | None = None, skip_unplaced: bool | None = None, max_step_time: float | None = None,
                  voxel_level: int | None = None, level: int | None = None, pair_budget: int | None = None,
                  max_points: int | None = None, center_normals: bool | None = None, plain_average: bool | None = None,
                  refine: bool | None = None, timeout: float | None = None) -> None:
        """Changes settings from the next step on; what is left out keeps its value.

        A setting belongs to the methods named with it: other methods refuse it, and a change to another method drops it (but
        patches, beside which it is refused). One that is named without a method makes the method its own.

        Args:
            method: One of the server's methods, or auto: exact, but ldi together with a resolution or a pixel size, and ebpi
                together with a tolerance. A change of the method drops the settings that the new one does not take, but is
                refused beside patches, which stay.
            resolution: Ray samples across a contact's window along x, y, z (Faure 2008). 1 to 4096. For ldi.
            pixel_size: Pitch of a lattice of rays that is fixed in the world (Allard 2010), instead of a resolution. 1e-30 to
                1e+30 m; 0: none. For ldi.
            stiffness: Factor k of the penalty energy E = k V^2 / 2; scales forces. 0 to 1e+300 N/m^5; 0: no forces.
            law: What forces follow from: the volume of each contact, or a pressure that bodies' materials give (modulus,
                friction, dissipation). For exact. With the law pressure auto runs exact, and steps have wrenches.
            stiction_speed: Law pressure: the sliding speed at which friction reaches 0.71 of its limit; below it surfaces
                stick, but for a creep of some of it. 1e-12 to 1e+06 m/s; 0: 0.001. For exact.
            patches: Each connected piece of a pair's intersection is a contact, the largest first; they add up to the pair's.
                For exact. With patches auto runs exact; a sampling and patches exclude each other.
            tolerance: Bound of the error of each contact's volume to reach; a step may name its own. 0 to 1e+300 m^3; 0: none.
                For ebpi.
            tolerance_rel: The same as a fraction of the volume; of both the larger counts. 1e-06 to 1; 0: none. For ebpi.
            strict: Whether the bound is proven, or else the published one, which a contact is computed by unless its views
                refute it. For ebpi.
            optimize_directions: Each pair's views lie along axes that few of its faces are parallel to (Wang 2012, section
                4.4), instead of the world's. For ebpi. volumes and error_bounds are then of those views; all else is in world
                axes. The axes are found from the faces in each step anew, so answers do not depend on earlier steps.
            allocation: Which parts of the views get more rays. For ebpi.
            ray_budget: Rays that a pair may cast, those of refined tiles included. 3 to 268435456; 0: the default, 1048576.
                For ebpi. A ray takes some 200 bytes of working memory, and 4 more for each face over its tile.
            cell_size: Contacts are also given in cells: cubes of this size, fixed in the world, one of whose corners is the
                origin (Allard 2010, section 5). 1e-30 to 1e+30 m; 0: none. For ldi. With a cell size auto runs ldi.
            margin: Pairs of bodies without a contact that are closer than this are listed with their distance, as separations.
                0 to 1e+30 m; 0: none.
            skip_unplaced: Pairs of bodies that are too far apart in size or place for the method's coordinates are left out,
                with a warning for each body, instead of failing the step. For ldi, exact, ebpi.
            max_step_time: A step that takes longer is cancelled with TIME_LIMIT, and has changed nothing; lowered to the
                server's limit where it is above it. Above 0 s.
            voxel_level: Finest level of the meshes' voxel trees, which are made when a body is added. 3 to 8; 0: one that
                suits each mesh: cubes about as large as its triangles, 5 to 7. For voxtree. Level l divides the cube around a
                mesh into 2^l cubes along each axis.
            level: No tree is followed below this level, which is at most voxel_level. 1 to 8; 0: all levels. For voxtree.
            pair_budget: Pairs of a cube and the cubes that it may meet which a step may compare, shared by its pairs of
                bodies, the deepest overlaps first. 1 to 9223372036854775807; 0: no limit. For voxtree.
            max_points: Points of each contact, by every method: the ones that matter most. 1 to 4096; 0: none, of voxtree 8.
                With points a step wants the frame and friction weights as well.
            center_normals: Points' normals along the line of the cubes' centres (Dingliana 2005, section 3.2), instead of from
                the gradients of occupancies. For voxtree.
            plain_average: Points are plain means (Dingliana 2005, equations 7 and 8), instead of weighted with probabilities.
                For voxtree.
            refine: After the trees, pairs in contact are computed by exact, the largest volumes first: all of them, or with a
                time budget those expected to fit the time left. For voxtree.
            timeout: s, of the request; None: the client's.
        """
        self._configure(dict(method=method, resolution=resolution, pixel_size=pixel_size, stiffness=stiffness, law=law,
                             stiction_speed=stiction_speed, patches=patches, tolerance=tolerance, tolerance_rel=tolerance_rel,
                             strict=strict, optimize_directions=optimize_directions, allocation=allocation,
                             ray_budget=ray_budget, cell_size=cell_size, margin=margin, skip_unplaced=skip_unplaced,
                             max_step_time=max_step_time, voxel_level=voxel_level, level=level, pair_budget=pair_budget,
                             max_points=max_points, center_normals=center_normals, plain_average=plain_average, refine=refine), timeout)
